// SimKeeper: the keeper of states of one simulated peer. Gives the pieces of its newest checkpoint
// to newcomers, and keeps, across the ends of its processes as a disk does, what it has fetched of
// others'.
//
// A piece of the weights holds the values of a stripe; one of any other section the name of its
// snapshot, so that a stripe put together from two snapshots shows. Digests are real, and verified
// as peer/states/partial_state.h does. Orders are executed one at a time, oldest first; when is
// decided by the simulator. Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/sim/sim_mixer.h"

namespace starling::gossip {

class SimKeeper {
 public:
  struct Snapshot {
    std::uint64_t name = 0;  // never zero
    std::uint64_t step = 0, tokens = 0;
    std::vector<StripeValues> values;  // by stripe
  };
  struct Stripe {
    PeerId from;  // nobody: an earlier process stored it
    std::uint64_t snapshot = 0;
    StripeValues values{};
  };
  struct Done {
    std::optional<StateInput> input;  // none: there is no answer
    SimPayload payload;               // of a piece that was read
  };
  // What goes wrong with one order.
  struct Faults {
    bool no_room = false;     // for a piece to be sent
    bool disk_fails = false;  // in reading as in writing
  };
  // The newest checkpoint; nothing: there is none.
  using Newest = std::function<std::optional<Snapshot>()>;

  // sections: sections_taken()
  SimKeeper(std::size_t stripes, std::uint8_t sections, SeededBug bug);

  void restart();  // of the process: what it was about to do is forgotten, what is stored stays
  void clear();    // what is stored is in a checkpoint now
  std::vector<std::uint64_t> held() const;  // of every stripe its snapshot, if whole; else zero

  void submit(const StateOrder& order, const SimPayload* payload);
  Done execute_next(const Newest& newest, Faults faults);

  // What was fetched of a stripe; nothing: it is not whole, or its sections are of two snapshots.
  std::optional<Stripe> fetched(std::size_t stripe) const;
  std::size_t pieces_stored() const;

 private:
  struct Order {
    StateOrder order;
    std::optional<SimPayload> payload;
  };
  struct Piece {
    PeerId from;
    std::uint64_t snapshot = 0;  // zero: it is not here
    StripeValues values{};
  };
  struct Execute;

  std::size_t pieces() const { return stored_.size(); }
  bool is_taken(std::size_t piece) const;
  StripeValues piece_of(const Snapshot& snapshot, std::size_t piece) const;
  PieceStored store(const StorePiece& order, const SimPayload& payload);

  const std::size_t stripes_;
  const std::uint8_t sections_;
  const SeededBug bug_;
  std::deque<Order> orders_;
  std::optional<Snapshot> served_;
  std::vector<Piece> stored_;
  // Of donors' snapshots: the digests of their pieces.
  std::map<std::pair<PeerId, std::uint64_t>, std::vector<std::uint64_t>> manifests_;
};

}  // namespace starling::gossip

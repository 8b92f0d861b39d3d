// PartGossip: spreads who has read what of the training data (PartMap) among the peers that have
// the same data, and says how each part stands for this peer. One message per ping_interval to one
// random live peer; one with other data answers with what it has, and both leave each other alone.
//
// A claim holds as long as membership says that its process lives; nobody waits for one and nobody
// grants one. Parts are handed out in advance by rendezvous hashing over the live readers (Thaler,
// Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 6(1), 1998): each
// prefers its own, so that two rarely choose the same before they have heard of each other.
//
// Does nothing for a peer without data (no parts). Has dice of its own, so that other machines draw
// the same with and without it. Thread: one owner.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/part_map.h"

namespace starling::gossip {

class PartGossip {
 public:
  PartGossip(CoreContext& context, const CoreIdentity& identity, const RestoredState& restored,
             Instant now);

  void on_parts(PeerId from, const Parts& message);
  void on_finished(std::uint16_t part, std::uint16_t times);
  void on_held(std::span<const std::uint16_t> parts);
  void on_deadline(Instant now);
  std::optional<Instant> next_deadline() const;

  std::vector<PartView> views() const;
  std::uint64_t refused() const { return refused_; }
  std::size_t claims() const { return map_.claims(); }

 private:
  bool holds(const PartClaim& claim) const;
  bool may_follow(const PartClaim& claim) const;
  bool may_read(const Peer& peer) const;
  std::optional<PeerId> draw_reader();
  void forget_the_gone();

  CoreContext& context_;
  const std::uint64_t space_;
  PartMap map_;
  Rng rng_;
  PartClaim own_;
  std::map<PeerId, std::uint64_t> others_data_;  // peers with other data: their process
  Instant next_tick_;
  std::uint64_t refused_ = 0;  // entries about parts or processes that cannot be
  // By part: is it ours among `readers_`? Found anew when they change.
  mutable std::vector<PeerId> readers_;
  mutable std::vector<bool> ours_;
};

}  // namespace starling::gossip

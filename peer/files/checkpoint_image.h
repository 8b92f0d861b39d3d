// CheckpointImage: the state of one peer as of one step boundary, on its way to the disk. One
// image is allocated at start and walks in a circle: the trainer copies its part at the boundary,
// the mixer adds its own of the same cut, the network its token map; the disk writes it and sends
// it home. While it is out, the next checkpoint is skipped and counted; nobody waits.
//
// The cut is consistent without stopping anybody: the mixer meets the image in the trainer's ring
// exactly behind the corrections that theta contains, and adds those still under way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "gossip/actions.h"
#include "gossip/ledger.h"
#include "peer/files/data_parts.h"

namespace starling::peer {

// Where training stands. Enough to go on bit for bit together with the weights.
struct TrainerProgress {
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t batches = 0;        // batches drawn
  std::uint64_t steps_at_join = 0;  // the local warm-up counts from here
  double clock = 0;                 // swarm tokens the learning rate has reached
  std::uint64_t inherited = 0;      // tokens of others in the weights that were fetched at the join
};

// A delta applied here whose other side has not answered: needed to undo it.
struct UnsettledDelta {
  gossip::StripeRef ref;
  gossip::PairTerms terms;
  std::vector<std::byte> payload;
};

// How old the weights are, for who goes on from them later.
struct CheckpointAge {
  double written = 0;  // unix time in seconds; 0: not known
  double missed = 0;   // seconds of the others' training (gossip/core.h) that are not in them
};

struct CheckpointImage {
  explicit CheckpointImage(std::size_t elements, bool with_outer);

  TrainerProgress progress;
  DataPosition data;
  std::vector<float> weights, first_moment, second_moment;  // trainer's part
  std::vector<float> slow, momentum;  // mixer's part; empty without outer steps
  std::vector<float> scales;          // block scales of every stripe, in order
  std::vector<gossip::LedgerRow> ledger;
  std::vector<UnsettledDelta> unsettled;
  std::vector<gossip::TokenEntry> tokens;  // network's part
  CheckpointAge age;
  bool final = false;  // the last one: the peer leaves when it is written
  bool sound = true;   // every weight is finite: worth keeping
};

// Every weight and moment in it.
bool is_finite(const CheckpointImage& image);

}  // namespace starling::peer

// What the source of training data shares with others: its position in a checkpoint, the parcels
// between it and the network role, and what it counts. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bounded.h"
#include "base/metrics.h"
#include "gossip/core.h"

namespace starling::peer {

// A part that is being read: its windows come in an order drawn from `passes`.
struct OpenPart {
  std::uint16_t part = 0;
  std::uint16_t passes = 0;  // what was known of it when it was begun
  std::uint64_t read = 0;    // windows of it so far
  friend bool operator==(const OpenPart&, const OpenPart&) = default;
};

// Where reading stands: enough to go on with the same windows.
struct DataPosition {
  std::uint64_t space = 0;  // digest of the data
  std::uint64_t drawn = 0;  // windows in all
  BoundedList<OpenPart, gossip::kPartsHeldMax> open;
  // By part: times read to the end by anybody, as far as known, and by this peer.
  std::vector<std::uint16_t> passes, own_passes;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// network -> trainer: how a part stands now.
struct PartNews {
  std::uint16_t part = 0;
  gossip::PartView view;
};

// trainer -> network.
struct PartFinished {
  std::uint16_t part = 0;
  std::uint16_t times = 1;
};
struct PartsHeld {
  BoundedList<std::uint16_t, gossip::kPartsHeldMax> parts;  // all of them
};

// Of the source of the batches, which alone writes them.
struct DataMetrics {
  Counter parts;                                // of the data
  Counter parts_never, parts_once, parts_more;  // read that often by anybody, as far as known
  Counter parts_read;                           // to their end, by this peer
};

}  // namespace starling::peer

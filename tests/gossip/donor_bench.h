// DonorBench: a StateDonor alone, with a snapshot ready, whose reads a test answers.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "tests/gossip/state_bench.h"

namespace starling::gossip {

struct DonorBench {
  explicit DonorBench(const GossipConfig& config = {}, std::uint32_t stripes = 4)
      : context(config, StateBench::identity(PeerId{1}, {stripes}), {}, Instant{}), donor(context) {
    offer.snapshot = 7;
    REQUIRE(offer.manifest.try_push({}));
  }
  std::optional<StateReason> ask(PeerId from, bool joining = false) {
    donor.on_request(now, from, joining);
    if (prepares()) donor.on_snapshot(now, offer);
    donor.on_request(now, from, joining);
    return answer();
  }
  bool prepares() {
    bool found = false;
    for (const Action& action : context.actions) {
      const auto* order = std::get_if<StateOrder>(&action);
      found = found || (order != nullptr && std::holds_alternative<PrepareSnapshot>(*order));
    }
    context.actions.clear();
    return found;
  }
  // Why it declined, nothing if it offered.
  std::optional<StateReason> answer() {
    REQUIRE(!context.actions.empty());
    const auto send = std::get<Send>(context.actions.back());
    context.actions.clear();
    if (const auto* declined = std::get_if<StateDeclined>(&send.message)) return declined->reason;
    REQUIRE(std::holds_alternative<StateOffer>(send.message));
    return std::nullopt;
  }
  // The piece it wants to read now.
  std::optional<ReadPiece> reads() {
    std::optional<ReadPiece> found;
    for (const Action& action : context.actions) {
      const auto* order = std::get_if<StateOrder>(&action);
      if (order != nullptr && std::holds_alternative<ReadPiece>(*order)) {
        found = std::get<ReadPiece>(*order);
      }
    }
    context.actions.clear();
    return found;
  }
  // Reads are answered at once, and nothing else happens for so long.
  void pass(Duration time) {
    const Instant end = now + time;
    for (;;) {
      while (const auto order = reads()) donor.on_piece_read(now, *order, PieceRead::kRead);
      const auto due = donor.next_deadline();
      if (!due || *due >= end) break;
      now = std::max(now, *due);
      donor.on_deadline(now);
    }
    now = end;
    donor.on_deadline(now);  // the core's are never far apart
  }
  void request(PeerId from, std::uint32_t piece, std::uint32_t received = 0) {
    donor.on_piece_request(now, from, {7, piece, received});
  }

  Instant now{};
  CoreContext context;
  StateDonor donor;
  StateOffer offer;
};

}  // namespace starling::gossip

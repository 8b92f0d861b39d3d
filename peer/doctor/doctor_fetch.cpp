#include "peer/doctor/doctor_fetch.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "peer/io/clock.h"

namespace starling::peer {

void FetchMeter::submit(gossip::StateOrder order, Bytes payload) {
  if (const auto* store = std::get_if<gossip::StorePiece>(&order)) {
    const std::uint64_t arrived = payload.view().size();
    bytes_ += arrived;
    const Instant time = now();
    const auto [row, is_first] = rows_.try_emplace(store->from);
    row->second.last = time;
    if (is_first) row->second.first = time;
    if (!is_first) row->second.bytes += arrived;
    post(gossip::PieceStoredDone{*store, gossip::PieceStored::kStored, arrived});
  } else if (const auto* read = std::get_if<gossip::ReadPiece>(&order)) {
    post(gossip::PieceReadDone{*read, gossip::PieceRead::kFailed});  // there is nothing to give
  } else if (std::holds_alternative<gossip::PrepareSnapshot>(order)) {
    post(gossip::SnapshotReady{});
  } else if (std::holds_alternative<gossip::CheckState>(order)) {
    post(gossip::StateChecked{.good = true});
  }
}

Fetched FetchMeter::from(PeerId donor) const {
  const auto row = rows_.find(donor);
  if (row == rows_.end()) return {};
  return {.bytes = row->second.bytes, .took = row->second.last - row->second.first};
}

void FetchMeter::post(const gossip::StateInput& input) {
  boost::asio::post(io_, [this, input] { answer_(input); });
}

}  // namespace starling::peer

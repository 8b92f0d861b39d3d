// PumpedStates: the keeper of states of one pumped peer: the real ServedState and PartialState on
// real files, one order per call of work(), on the caller's thread.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/states/partial_state.h"
#include "peer/states/served_state.h"
#include "tests/support/pumped_swarm.h"

namespace starling::testing {

class PumpedStates {
 public:
  struct Answer {
    gossip::StateInput input;
    std::vector<std::byte> payload;
  };

  PumpedStates(const PumpedOptions& options, std::uint32_t index, const peer::StripeTable& stripes)
      : options_(options),
        index_(index),
        folder_(options.states / std::to_string(index)),
        plan_(stripes) {}

  gossip::FetchState fetch(bool moments) {
    auto partial = peer::PartialState::open(folder_, plan_, {}, gossip::sections_taken(moments));
    STARLING_ASSERT(partial.ok());
    partial_.emplace(std::move(partial).value());
    moments_ = moments;
    return {partial_->held()};
  }
  // What peer/roles/joining.h makes of what was fetched.
  std::unique_ptr<peer::CheckpointImage> image(const gossip::JoinEnded& ended) const {
    auto image = std::make_unique<peer::CheckpointImage>(plan_.parameters(), true);
    STARLING_ASSERT(partial_->load(*image).ok());
    if (moments_) image->progress.steps = ended.step;
    image->progress.steps_at_join = image->progress.steps;
    image->progress.inherited = ended.tokens;
    return image;
  }

  void submit(const gossip::StateOrder& order, Bytes payload) {
    const auto bytes = payload.view();
    orders_.emplace_back(order, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  // `newest`: the peer's last image, which is written when somebody wants it; null: none yet.
  std::optional<Answer> work(const peer::CheckpointImage* newest) {
    while (!orders_.empty()) {
      const auto [order, payload] = std::move(orders_.front());
      orders_.pop_front();
      if (std::holds_alternative<gossip::PrepareSnapshot>(order)) return prepare(newest);
      if (const auto* read = std::get_if<gossip::ReadPiece>(&order)) return serve(*read);
      if (const auto* store = std::get_if<gossip::StorePiece>(&order)) {
        const auto outcome = partial_->store(*store, payload);
        return Answer{gossip::PieceStoredDone{*store, outcome, payload.size()}, {}};
      }
      if (const auto* check = std::get_if<gossip::CheckState>(&order)) {
        return Answer{gossip::StateChecked{partial_->check(*check).value()}, {}};
      }
      STARLING_ASSERT(partial_->forget(std::get<gossip::ForgetPieces>(order)).ok());
    }
    return std::nullopt;
  }

 private:
  Answer prepare(const peer::CheckpointImage* newest) {
    served_.reset();
    if (newest == nullptr) return {gossip::SnapshotReady{}, {}};
    const std::filesystem::path path = folder_.string() + ".ckpt";
    peer::CheckpointImage served = *newest;
    options_.forge_state(index_, served);
    const auto sections = peer::sections_of(served, "");
    STARLING_ASSERT(peer::write_checkpoint(path, {}, sections.sections).ok());
    auto opened = peer::ServedState::open(path, plan_, {});
    STARLING_ASSERT(opened.ok());
    served_.emplace(std::move(opened).value());
    return {gossip::SnapshotReady{served_->offer()}, {}};
  }

  Answer serve(const gossip::ReadPiece& order) {
    if (!served_ || served_->offer().snapshot != order.snapshot) {
      return {gossip::PieceReadDone{order, gossip::PieceRead::kFailed}, {}};
    }
    Answer answer{gossip::PieceReadDone{order, gossip::PieceRead::kRead}, {}};
    answer.payload.resize(served_->piece_bytes(order.piece));
    STARLING_ASSERT(served_->read(order.piece, answer.payload).ok());
    return answer;
  }

  const PumpedOptions& options_;
  std::uint32_t index_;
  std::filesystem::path folder_;
  peer::StatePlan plan_;
  std::deque<std::pair<gossip::StateOrder, std::vector<std::byte>>> orders_;
  std::optional<peer::ServedState> served_;
  std::optional<peer::PartialState> partial_;
  bool moments_ = false;
};

}  // namespace starling::testing

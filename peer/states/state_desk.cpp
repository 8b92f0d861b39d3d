#include "peer/states/state_desk.h"

#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace starling::peer {

// One order on its way through the disk.
class StateDesk::Task final : public DiskTask {
 public:
  Task(StateDesk& desk_in, gossip::StateOrder order_in, Bytes payload_in)
      : desk(desk_in),
        order(std::move(order_in)),
        payload(std::move(payload_in)),
        newest(desk_in.newest_) {}

  void work() override {
    std::visit([this](const auto& one) { desk.perform(one, *this); }, order);
  }

  StateDesk& desk;
  gossip::StateOrder order;
  Bytes payload;
  std::filesystem::path newest;
};

// What a newer checkpoint, or the lack of one, means to an older one that is open.
class StateDesk::LetGo final : public DiskTask {
 public:
  explicit LetGo(StateDesk& desk_in) : desk(desk_in) {}

  void work() override { desk.let_go_unread(); }

  StateDesk& desk;
};

StateDesk::StateDesk(const StateDeskConfig& config, const StatePlan& plan, Disk& disk,
                     SlotPool& pieces)
    : config_(config), plan_(plan), disk_(disk), pieces_(pieces) {}

void StateDesk::note_checkpoint(std::filesystem::path path) {
  const bool is_first = newest_.empty();  // then none can be open
  newest_ = std::move(path);
  if (!is_first) disk_.perform(std::make_unique<LetGo>(*this));
}

void StateDesk::note_failure() { disk_.perform(std::make_unique<LetGo>(*this)); }

void StateDesk::submit(gossip::StateOrder order, Bytes payload) {
  disk_.perform(std::make_unique<Task>(*this, std::move(order), std::move(payload)));
}

const PartialState& StateDesk::partial() const {
  STARLING_ASSERT(partial_.has_value());
  return *partial_;
}

void StateDesk::perform(const gossip::PrepareSnapshot&, const Task& task) {
  gossip::SnapshotReady ready;
  snapshot_.reset();
  if (!task.newest.empty()) {
    auto opened = ServedState::open(task.newest, plan_, config_.digests);
    if (opened.ok()) {
      snapshot_.emplace(std::move(opened).value());
      used_at_ = config_.clock();  // now: a large one is long in the making
      ready.offer = snapshot_->offer();
      log_debug("{} can be given to newcomers: {} pieces", task.newest.string(), plan_.pieces());
    } else {
      log_warning("no newcomer can be served: {}", opened.error().message());
    }
  }
  answer_({ready, std::nullopt, 0});
}

void StateDesk::perform(const gossip::ReadPiece& order, const Task&) {
  const bool known = snapshot_ && snapshot_->offer().snapshot == order.snapshot;
  if (known) used_at_ = config_.clock();
  const std::size_t bytes = known ? snapshot_->piece_bytes(order.piece) : 0;
  if (bytes == 0) return answer_({gossip::PieceReadDone{order, gossip::PieceRead::kFailed}, {}, 0});
  auto slot = pieces_.try_acquire();
  if (!slot) return answer_({gossip::PieceReadDone{order, gossip::PieceRead::kNoRoom}, {}, 0});
  Status read = snapshot_->read(order.piece, slot->bytes().subspan(config_.head_bytes, bytes));
  if (!read.ok()) {
    log_warning("a piece for a newcomer was not read: {}", read.error().message());
    return answer_({gossip::PieceReadDone{order, gossip::PieceRead::kFailed}, {}, 0});
  }
  answer_({gossip::PieceReadDone{order, gossip::PieceRead::kRead}, std::move(slot), bytes});
}

void StateDesk::perform(const gossip::StorePiece& order, const Task& task) {
  STARLING_ASSERT(partial_.has_value());
  const auto bytes = task.payload.view();
  const auto outcome = partial_->store(order, bytes);
  answer_({gossip::PieceStoredDone{order, outcome, bytes.size()}, std::nullopt, 0});
}

void StateDesk::perform(const gossip::ForgetPieces& order, const Task&) {
  STARLING_ASSERT(partial_.has_value());
  Status forgotten = partial_->forget(order);
  // Then a later process may take them for good, and finds them wrong at the end.
  if (!forgotten.ok()) log_warning("{}", forgotten.error().message());
}

void StateDesk::perform(const gossip::CheckState& order, const Task&) {
  STARLING_ASSERT(partial_.has_value());
  auto good = partial_->check(order);
  if (!good.ok()) log_warning("what was fetched: {}", good.error().message());
  answer_({gossip::StateChecked{good.ok() && good.value()}, std::nullopt, 0});
}

// Tasks come in their order, so what is open is of a checkpoint before the one of which was told.
// By the clock, not by the number of checkpoints: those of a small model come faster than a
// newcomer asks for its first piece, and faster than one piece goes over a thin line.
void StateDesk::let_go_unread() {
  if (!snapshot_ || config_.clock() - used_at_ < kReadWithin) return;
  log_debug("the checkpoint that was given to newcomers is let go: nobody reads it any more");
  snapshot_.reset();
}

}  // namespace starling::peer

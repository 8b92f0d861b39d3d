// StateDesk: where orders about whole states become work for the disk: snapshots of the newest
// checkpoint for newcomers (ServedState), and what this peer fetches as a newcomer itself
// (PartialState). One order at a time, in their order; each answer goes back by the function given
// to start(), on a thread of the disk's pool.
//
// The file of a snapshot is open, so it takes its room on disk also after it was rotated away. It
// is let go when a newer checkpoint is noted, or failed, maybe for lack of room, and nobody has
// read of it for kReadWithin; whoever reads of it later is told that it failed, and begins with a
// newer one.
//
// Threads: submit() and note_checkpoint() on the network's, which only leave work for the disk;
// note_failure(), which does the same, on any; the clock on the disk's pool, as all that touches
// what is open; partial() before the threads start and when the network has told that joining has
// ended. Outlives both roles, and so does the pool.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/slot_pool.h"
#include "gossip/driver.h"
#include "gossip/state_donor.h"
#include "peer/files/disk.h"
#include "peer/io/clock.h"
#include "peer/states/partial_state.h"
#include "peer/states/served_state.h"

namespace starling::peer {

struct StateAnswer {
  gossip::StateInput input;
  std::optional<SlotLease> slot;  // of a piece that was read, behind room for the link's head
  std::size_t payload_bytes = 0;
};

struct StateDeskConfig {
  CheckpointDigests digests;
  std::size_t head_bytes = 0;  // room to leave in front of every piece
  std::function<Instant()> clock = now;
};

class StateDesk final : public gossip::StatePort {
 public:
  // No session goes on for longer without a piece that is read, on any but the thinnest line.
  static constexpr Duration kReadWithin = gossip::StateDonor::kTurn;

  StateDesk(const StateDeskConfig& config, const StatePlan& plan, Disk& disk, SlotPool& pieces);

  void start(std::function<void(StateAnswer)> answer) { answer_ = std::move(answer); }
  void keep(PartialState partial) { partial_.emplace(std::move(partial)); }
  void note_checkpoint(std::filesystem::path path);
  void note_failure();  // of a checkpoint that was to be written
  void submit(gossip::StateOrder order, Bytes payload) override;

  const PartialState& partial() const;  // there is one

 private:
  class Task;
  class LetGo;
  void perform(const gossip::PrepareSnapshot& order, const Task& task);
  void perform(const gossip::ReadPiece& order, const Task& task);
  void perform(const gossip::StorePiece& order, const Task& task);
  void perform(const gossip::ForgetPieces& order, const Task& task);
  void perform(const gossip::CheckState& order, const Task& task);
  void let_go_unread();

  const StateDeskConfig config_;
  const StatePlan plan_;
  Disk& disk_;
  SlotPool& pieces_;
  std::function<void(StateAnswer)> answer_;
  std::filesystem::path newest_;  // network's thread; empty: no checkpoint yet
  // The disk's, one task at a time.
  std::optional<ServedState> snapshot_;
  Instant used_at_;  // when the snapshot was made or last read of
  std::optional<PartialState> partial_;
};

}  // namespace starling::peer

// SwarmWatch: did the swarm just fall apart, and did it come together again? Watches how many peers
// die and return within two minutes. A large share at once is no coincidence of crashes but a
// split, of the network or of ourselves from it; everybody gone means that this peer is alone. A
// report is made once the numbers have stood still for a few seconds; whoever has come back by then
// was never missed. Peers that leave with a word do not count, nor does hearsay: a member that
// invents others could stage a split by their deaths, or hide one behind them. Where those who were
// lost come back one by one, or in a day do not, that split is over without a word, and the next
// one is seen for itself. No clock. Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/actions.h"

namespace starling::gossip {

class SwarmWatch {
 public:
  static constexpr Duration kWindow = std::chrono::minutes(2);
  static constexpr Duration kQuiet = std::chrono::seconds(15);
  static constexpr double kShare = 0.25;      // of those who were there: a split
  static constexpr std::uint64_t kLeast = 2;  // one death is a death
  static constexpr double kNearlyAll = 0.9;   // of those who were there: all have come back

  // Of a peer that was met once.
  void on_lost(Instant now, PeerId peer) { note(lost_, now, peer); }
  void on_found(Instant now, PeerId peer);
  // It does not count any more, `present` or lost.
  void on_struck_off(PeerId peer, bool present);
  void shift(Duration by);
  // `present`: the others alive or suspect now, of those that were ever met. Call often.
  std::optional<SwarmChanged> look(Instant now, std::uint64_t present);
  bool whole() const { return state_ == State::kWhole; }
  bool split() const { return state_ == State::kSplit; }  // told, and not over yet

 private:
  enum class State : std::uint8_t { kWhole, kSplit, kAlone };
  struct Move {
    Instant at;
    PeerId peer;
  };
  static constexpr std::size_t kNotedMax = 65536;
  void become_whole();
  void fall_apart(Instant now, State state, std::uint64_t were_there);
  bool is_over(Instant now, std::uint64_t present) const;
  static void note(std::deque<Move>& moves, Instant now, PeerId peer);
  void forget_lost(Instant now);
  static void forget(std::deque<Move>& moves, Instant now);
  static bool quiet(const std::deque<Move>& moves, Instant now, Instant back_at = {});

  State state_ = State::kWhole;
  bool had_company_ = false;
  std::uint64_t were_there_ = 0;   // before the first of the splits that are not healed yet
  std::uint64_t lost_before_ = 0;  // of those
  // Who was there and is not back, as far as known; true: lost before the last of those splits.
  std::map<PeerId, bool> missed_;
  Instant split_at_;               // the last of them
  std::deque<Move> lost_, found_;  // within the window, since the last report
  Instant back_at_;                // the last of those that came back before a report
};

}  // namespace starling::gossip

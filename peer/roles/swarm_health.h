// SwarmHealth: how well the swarm works as one peer sees it, from what it has received anyway: no
// collective, and nobody is asked.
//
//   swarm's loss     mean of the last losses of this peer and of the living partners that have told
//                    theirs lately: partners tell with every exchange, so within kLossIntervals
//                    times what usually passes until each of them is met again, and within
//                    kLossFresh in any case
//   drift            RMS(phi_partner - phi) over the RMS of the step that an outer step makes in
//                    the long run, outer gain * RMS(theta - phi). Partners that meet in
//                    the middle once a round stay less than about 3 apart. (The numerator is
//                    the consensus distance of Kong et al., "Consensus control for decentralized
//                    deep learning", ICML 2021.)
//   fragment's age   since its last completed exchange
//
// Alarms are about what its owner can change: a trainer that stands still (stall_watch.h), a loss
// that has risen, a model that drifts, a fragment that is no longer averaged, a link that is the
// limit. Time comes from outside. Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "peer/roles/loss_trend.h"
#include "peer/roles/stall_watch.h"

namespace starling::gossip {
struct PeerView;
}

namespace starling::peer {

struct HealthLimits {
  double upload = 0, download = 0;  // bytes per second; 0: no limit
};

struct Alarm {
  std::string kind;
  std::string text;  // what is wrong and what to change
};

class SwarmHealth {
 public:
  static constexpr Duration kLossFresh = std::chrono::minutes(10);
  static constexpr Duration kLossFreshMin = std::chrono::seconds(30);
  static constexpr int kLossIntervals = 4;  // chance alone makes one of 50 later than that
  // More than this is no longer the distance that exchanges leave.
  static constexpr double kDriftMax = 8;
  static constexpr std::uint64_t kDriftExchanges = 10;  // completed while it was more
  // A fragment is late after so many of its usual intervals, and not before kLateMin.
  static constexpr int kLateIntervals = 10;
  static constexpr Duration kLateMin = std::chrono::minutes(5);
  static constexpr double kLinkFull = 0.9;  // of what is allowed
  static constexpr Duration kLinkSpan = std::chrono::seconds(10);

  explicit SwarmHealth(const HealthLimits& limits) : limits_(limits) {}

  // What the peer sees of itself and the others at one moment.
  struct Sight {
    struct Told {
      double loss = 0;
      Duration age{};
    };
    void add(Instant now, const gossip::PeerView& other);

    double own_loss = 0;                        // 0: not known
    std::vector<Told> losses;                   // of living partners
    std::size_t partners = 0;                   // that live
    double disagreement = 0, displacement = 0;  // running RMS (mixer.h); 0: not measured
    double outer_gain = 1;                      // optim/outer_stage.h
    std::uint64_t bytes_out = 0, bytes_in = 0;
    bool exchanges_owed = false;  // there are partners and exchanges are allowed
    std::uint64_t passes = 0;     // of the own model; counts up
    bool trains = false;          // it has something to train
  };

  void on_step(double loss) { trend_.add(loss); }  // this peer's
  void on_completed(Instant now, FragmentId fragment);
  void look(Instant now, const Sight& sight);  // about once a second

  // Of the last look. Zero: not known.
  double loss() const noexcept { return loss_; }
  double drift() const noexcept { return drift_; }
  std::optional<Duration> age(Instant now, FragmentId fragment) const;  // empty: never averaged
  bool link_is_full() const noexcept { return link_is_full_; }
  const std::vector<Alarm>& alarms() const noexcept { return alarms_; }

 private:
  struct Averaged {
    Instant first, last;
    std::uint64_t count = 0;

    void add(Instant now);
    std::optional<Duration> usual() const;  // between two; empty: too few
  };
  struct Moved {
    Instant at;
    std::uint64_t out = 0, in = 0;
  };

  double mean_loss(const Sight& sight) const;
  void watch_stall(Instant now, const Sight& sight);
  void watch_trend();
  void watch_drift();
  void watch_ages(Instant now, bool owed);
  void watch_link(Instant now, std::uint64_t out, std::uint64_t in);

  const HealthLimits limits_;
  StallWatch stall_;
  LossTrend trend_;
  std::map<FragmentId, Averaged> averaged_;
  Averaged all_;                            // every exchange, of whatever fragment
  std::optional<std::uint64_t> far_since_;  // exchanges completed when drift passed its limit
  Instant owed_since_;
  bool owed_ = false;
  std::deque<Moved> moved_;  // of the last kLinkSpan
  bool link_is_full_ = false;
  double loss_ = 0, drift_ = 0;
  std::vector<Alarm> alarms_;
};

}  // namespace starling::peer

// SimStats: what happened in a simulated run, or in many. A test of the tests: a fault that never
// occurred has proved nothing. Thread: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace starling::gossip {

enum class SimCount : std::uint8_t {
  // Work.
  kEvents,
  kMessages,
  kDelivered,
  kReadFromFrames,
  kOrders,
  kPublished,
  kExchangesCompleted,
  kExchangesRelayed,
  kExchangesPartial,
  kExchangesDeclined,
  kExchangesFailed,
  kStripesApplied,
  kStripesCompensated,
  kClipped,
  kRejected,
  kRejectionsHeard,
  kStatesFetched,
  kStatesOfSeveral,
  kStatesResumed,
  kFetchesInVain,
  kDonorsLost,
  // Faults of the network.
  kLost,
  kDuplicated,
  kDamaged,
  kOvertaken,
  kSpikes,
  kBroken,
  kSendFailures,
  kPartitions,
  kCutOff,
  kLateArrivals,
  kClogs,
  kBehindNat,
  kRebinds,
  kForwarded,
  // Faults of processes.
  kCrashes,
  kCrashesForGood,
  kRestartsNewestCut,
  kRestartsOlderCut,
  kRestartsEmpty,
  kRegionCrashes,
  kPauses,
  kStarvations,
  kLeaves,
  kReturns,
  kLateJoins,
  kMixerRefusals,
  kDiskFailures,
  kEarlyDeadlines,
  kStrangersRefused,
  // Hostile members.
  kHostilePeers,
  kLies,
  kWithheld,
  kMutes,
  kDonorsWrong,
  kForgedOffered,
  kForgedAdopted,
  kHonestExchanges,
  kBuried,
  // Exceptional mass.
  kPartnerGone,
  kRolledBack,
  kUnequalPairs,
  kOrphans,
  kHostilePairs,
  kEnd
};

std::string_view to_string(SimCount count);

class SimStats {
 public:
  std::uint64_t& operator[](SimCount count) { return counts_[static_cast<std::size_t>(count)]; }
  std::uint64_t operator[](SimCount count) const {
    return counts_[static_cast<std::size_t>(count)];
  }
  SimStats& operator+=(const SimStats& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    return *this;
  }
  std::string describe() const;  // "events 123, messages 45, ..."

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(SimCount::kEnd)> counts_{};
};

}  // namespace starling::gossip

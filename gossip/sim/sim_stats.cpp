#include "gossip/sim/sim_stats.h"

namespace starling::gossip {

std::string_view to_string(SimCount count) {
  switch (count) {
    case SimCount::kEvents: return "events";
    case SimCount::kMessages: return "messages sent";
    case SimCount::kDelivered: return "messages delivered";
    case SimCount::kReadFromFrames: return "messages read from their frames";
    case SimCount::kOrders: return "mixer orders";
    case SimCount::kPublished: return "fragments published";
    case SimCount::kExchangesCompleted: return "exchanges completed";
    case SimCount::kExchangesRelayed: return "exchanges completed through a relay";
    case SimCount::kExchangesPartial: return "exchanges partial";
    case SimCount::kExchangesDeclined: return "exchanges declined";
    case SimCount::kExchangesFailed: return "exchanges failed";
    case SimCount::kStripesApplied: return "stripes applied";
    case SimCount::kStripesCompensated: return "stripes compensated";
    case SimCount::kClipped: return "stripes clipped";
    case SimCount::kRejected: return "stripes rejected";
    case SimCount::kRejectionsHeard: return "rejections told";
    case SimCount::kStatesFetched: return "states fetched";
    case SimCount::kStatesOfSeveral: return "states put together from several donors";
    case SimCount::kStatesResumed: return "fetches that went on where a process had ended";
    case SimCount::kFetchesInVain: return "fetches in vain";
    case SimCount::kDonorsLost: return "donors lost on the way";
    case SimCount::kLost: return "messages lost";
    case SimCount::kDuplicated: return "messages duplicated";
    case SimCount::kDamaged: return "messages damaged";
    case SimCount::kOvertaken: return "messages overtaken";
    case SimCount::kSpikes: return "delays over a second";
    case SimCount::kBroken: return "connections broken";
    case SimCount::kSendFailures: return "sends refused";
    case SimCount::kPartitions: return "partitions";
    case SimCount::kCutOff: return "messages cut off";
    case SimCount::kLateArrivals: return "messages held for a restart or a mended partition";
    case SimCount::kClogs: return "links that stood still";
    case SimCount::kBehindNat: return "peers behind a NAT";
    case SimCount::kRebinds: return "changes of a NAT's mapping";
    case SimCount::kForwarded: return "messages forwarded by a relay";
    case SimCount::kCrashes: return "crashes";
    case SimCount::kCrashesForGood: return "crashes for good";
    case SimCount::kRestartsNewestCut: return "restarts from the newest checkpoint";
    case SimCount::kRestartsOlderCut: return "restarts from an older checkpoint";
    case SimCount::kRestartsEmpty: return "restarts without a checkpoint";
    case SimCount::kRegionCrashes: return "crashes of a region";
    case SimCount::kPauses: return "pauses";
    case SimCount::kStarvations: return "times a starved peer did not run";
    case SimCount::kLeaves: return "leaves";
    case SimCount::kReturns: return "returns after a leave";
    case SimCount::kLateJoins: return "late joins";
    case SimCount::kMixerRefusals: return "mixer refusals";
    case SimCount::kDiskFailures: return "pieces that a disk would not read or store";
    case SimCount::kEarlyDeadlines: return "early deadlines";
    case SimCount::kStrangersRefused: return "strangers refused";
    case SimCount::kHostilePeers: return "hostile peers";
    case SimCount::kLies: return "lies told";
    case SimCount::kWithheld: return "messages owed and not sent";
    case SimCount::kHonestExchanges: return "exchanges completed among the honest";
    case SimCount::kBuried: return "burials of the living";
    case SimCount::kMutes: return "hostile peers muted";
    case SimCount::kDonorsWrong: return "hostile donors found out";
    case SimCount::kForgedOffered: return "forged states made ready";
    case SimCount::kForgedAdopted: return "forged states that a newcomer began with";
    case SimCount::kPartnerGone: return "stripes whose partner is gone";
    case SimCount::kRolledBack: return "stripes rolled back on one side";
    case SimCount::kUnequalPairs: return "stripes mixed with unequal weights";
    case SimCount::kOrphans: return "orphans";
    case SimCount::kHostilePairs: return "stripes mixed with a hostile peer";
    case SimCount::kEnd: break;
  }
  return "?";
}

std::string SimStats::describe() const {
  std::string text;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(to_string(static_cast<SimCount>(i))) + " " +
            std::to_string(counts_[i]);
  }
  return text;
}

}  // namespace starling::gossip

// Conduct: what this peer has against others, by peer id, so that neither a new connection nor a
// restart makes it forgotten. Proven misdeeds mute a peer for 10 minutes, twice as long each time,
// at most a day; a day of good behaviour after a mute clears the count. Doubts are a score that
// halves in 30 minutes and only makes the peer a less likely partner. Offers come out of a bucket.
//
// Who is there and yet lets an exchange end in silence costs its partner a lease for that time. It
// rests: nothing is begun with it, in either role, for kRestFactor times as long, twice that for
// every further silence, at most kLongestRest. An exchange that is completed makes up for one. What
// it offers itself is declined for no longer than kLongestShutOut: it may know nobody else, and its
// line have been bad for a while.
//
// Who held a lease far longer than is usual while others were turned away for want of room leaves
// the last place to them for kYieldFactor times as long, at most kLongestShutOut: one that is slow,
// or only waits, so has a quarter of it.
//
// Local knowledge, never gossiped: nobody can be slandered. At most kRowsMax rows; the one that
// matters least makes room. Knows no messages. Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Conduct {
 public:
  static constexpr std::size_t kRowsMax = 1024;
  static constexpr Duration kFirstMute = std::chrono::minutes(10);
  static constexpr Duration kLongestMute = std::chrono::hours(24);
  static constexpr Duration kForgivenAfter = std::chrono::hours(24);  // behind the end of a mute
  static constexpr Duration kDoubtHalves = std::chrono::minutes(30);
  static constexpr int kRestFactor = 4;
  static constexpr Duration kLongestRest = std::chrono::hours(1);
  static constexpr Duration kLongestShutOut = std::chrono::minutes(5);
  static constexpr int kYieldFactor = 3;
  static constexpr double kDoubtful = 3;    // from this score on a peer is avoided
  static constexpr double kDoubtsMax = 12;  // forgiven within an hour
  // Far above what an honest trainer makes of its fragments, far below what would cost us.
  static constexpr double kOffersPerSecond = 50;
  static constexpr double kOffersAtOnce = 100;

  // A proven misdeed: mutes the peer from now on. Returns for how long; zero: it is muted already.
  Duration offend(Instant now, PeerId peer);
  void doubt(Instant now, PeerId peer);  // one more reason
  bool muted(Instant now, PeerId peer) const;
  Duration muted_for(Instant now, PeerId peer) const;  // from now; zero: it is not
  std::size_t muted(Instant now) const;                // how many
  bool doubtful(Instant now, PeerId peer) const;
  void silent(Instant now, PeerId peer, Duration lost);
  void completed(PeerId peer);
  void kept_others_out(Instant now, PeerId peer, Duration held);
  bool resting(Instant now, PeerId peer) const;   // is offered nothing
  bool shut_out(Instant now, PeerId peer) const;  // nor may it offer
  bool yields(Instant now, PeerId peer) const;    // the last place, to others
  // True once per mute: the peer may be told.
  bool tell(PeerId peer);
  // False: it has offered too much lately.
  bool takes_offer(Instant now, PeerId peer);
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::uint8_t offences = 0;
    bool told = false;
    Instant muted_until{};
    double doubts = 0;
    Instant doubts_at{};
    std::uint8_t silences = 0;
    Instant rests_until{};
    Instant shut_out_until{};
    Instant yields_until{};
    double offers = kOffersAtOnce;  // left in the bucket
    Instant offers_at{};
  };
  Row& row_of(Instant now, PeerId peer);
  void make_room(Instant now);
  static double doubts(Instant now, const Row& row);

  std::map<PeerId, Row> rows_;
};

}  // namespace starling::gossip

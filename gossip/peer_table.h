// PeerTable: what this peer believes about the others. One row per peer id, at most `rows_max`;
// rows of the long dead make room. Merging a record is a join (higher incarnation wins, then worse
// health), so rumors may come in any order and any number of times.
//
// Data and its order only: who is told what and when is Membership's business. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "gossip/messages.h"

namespace starling::gossip {

struct Peer {
  PeerRecord record;
  bool welcomed = false;     // its process and ours agreed on the run; may be a partner
  std::uint8_t version = 1;  // of the wire, agreed with its process
  Instant last_heard;        // any message of its own
  Instant health_since;      // last change of health or process
  std::optional<Instant> unanswered_since;  // the first of our pings or greetings without a sign
  Instant greet_again;                      // not before
  Instant refused_until;                    // it refused us: leave it alone
  Instant declined_until;                   // it declined an offer
  std::uint8_t tell_left = 0;               // messages that carry its record first
  std::uint64_t offers_seen = 0;  // highest exchange counter of its process that we answered
};

// True if `news` replaces `known`.
bool supersedes(const PeerRecord& news, const PeerRecord& known);

class PeerTable {
 public:
  enum class Change : std::uint8_t { kNone, kNew, kHealth, kProcess, kRefused };

  PeerTable(std::uint32_t rows_max, Duration dead_kept)
      : rows_max_(rows_max), dead_kept_(dead_kept) {}

  // A changed address or refutation alone is kHealth's little sister: stored, reported as kNone.
  Change merge(Instant now, const PeerRecord& record);
  Peer* find(PeerId id);
  const Peer* find(PeerId id) const;
  bool is_welcome(PeerId id) const;
  // The running process of a peer that may be a partner; empty if it may not.
  std::optional<PeerKey> process(PeerId id) const;

  std::map<PeerId, Peer>& rows() { return rows_; }
  const std::map<PeerId, Peer>& rows() const { return rows_; }
  std::uint64_t count(Health health) const;
  std::uint64_t partners() const;  // alive and welcomed
  // The record of `reader` if it should be denied by it, then news, then random others.
  void fill(BoundedList<PeerRecord, kRecordsMax>& list, PeerId reader, Rng& rng);
  // All times of silence begin later by this much.
  void shift(Duration by);

 private:
  bool make_room(Instant now);
  std::uint8_t tell_times() const;

  std::uint32_t rows_max_;
  Duration dead_kept_;
  std::map<PeerId, Peer> rows_;
};

}  // namespace starling::gossip

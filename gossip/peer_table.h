// PeerTable: what this peer believes about the others. One row per peer id, at most `rows_max`.
//
// While the swarm fits, the table is the whole swarm and merging a record is a join (higher
// incarnation wins, then worse health, then the greater text), so rumors may come in any order and
// any number of times. A
// full table is a view by sample: a record of a living stranger takes the place of a row drawn at
// random, so that samples keep changing and everybody is known to about rows_max others (gossip
// peer sampling: Jelasity et al., "Gossip-based peer sampling", ACM TOCS 25(3), 2007). Drawn rows
// that had no sign of life for kStale go first and records as old are not taken, so the dead fade;
// choosing the oldest in any case would favour those heard often, who would be heard ever more.
// Rows with a line stay. News of the end of strangers makes no row: it would bring back for ever
// what all have forgotten; and whoever was doubted or buried here comes back only with a later sign
// of life (ForgottenPeers). Suspects make room like everybody, or tables would fill with them.
//
// Choosing, telling and counting cost the same at any size. Data and its order only: who is told
// what and when is Membership's business. Thread: one owner. References stay valid until their row
// goes; rows go in merge(), of another peer, in forget() and in forget_old().
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/rng.h"
#include "base/time.h"
#include "gossip/forgotten_peers.h"
#include "gossip/message_meter.h"
#include "gossip/messages.h"

namespace starling::gossip {

// Further accusers by which a suspicion becomes certain (Lifeguard's k).
inline constexpr std::size_t kConfirmationsMax = 3;

// What a message has most room for comes first. Names can be invented by the hundred, and a
// thousand real ones may join at once: neither must hide that somebody whom we met is doubted.
enum class News : std::uint8_t {
  kOfMet,      // a change with one that has introduced itself here
  kOfHearsay,  // a change with another
  kNewcomer    // a name nobody had heard
};

struct Peer {
  PeerRecord record;         // its age_s is 0; see alive_at
  Reach reach{};             // advertised_reach() of it
  bool welcomed = false;     // its process and ours agreed on the run; may be a partner
  bool met = false;          // this process has introduced itself; all else is hearsay
  bool met_once = false;     // this process or an earlier one
  bool connected = false;    // we hold lines to it
  std::uint8_t version = 1;  // of the wire, agreed with its process
  Instant last_heard;        // any message of its own; long ago: none yet
  Instant heard_directly;    // the same, over a connection between us two
  Instant last_sent;         // on its lines
  Instant introduced_at;     // our last Hello before a message
  Instant alive_at;          // last sign of life, its own or by rumor
  Instant health_since;      // last change of health or process, or suspicion after a denial
  Instant silent_at;         // last end of a probe of ours that nobody answered
  Instant greet_again;       // not before
  Instant refused_until;     // it refused us: leave it alone
  Instant declined_until;    // it declined an offer
  Instant compare_again;     // its view with ours, not before
  Instant answer_until;      // to a comparison of ours, one is waited for
  bool unanswered = false;   // an offer ran out, and it was not heard since
  BoundedList<PeerId, kConfirmationsMax + 1> accusers;  // of its suspicion, ourselves among them
  std::uint8_t tell_left = 0;                           // messages that carry its record first
  News news = News::kNewcomer;                          // of what kind it is
  std::uint64_t offers_seen = 0;  // highest exchange counter of its process that we answered
  std::uint32_t place = 0;        // in the table's round
  PeerId relay;                   // by which it is sent to, if it is
  Instant relay_since;            // which it has been
  PeerId heard_through;           // the relay by which it spoke last
  Instant proved_at;              // last sign of life that nobody else can have made up
  // By it, to us: what is costly to read, and all.
  MessageMeter said{MessageMeter::kTalk}, said_in_all{MessageMeter::kAll};
  MessageMeter unasked{MessageMeter::kUnasked};  // payloads of it that nobody waited for
  MessageMeter waste{MessageMeter::kWaste};      // bad frames of it that prove nothing
  Standing standing;                             // of its process, when it last told us
  std::optional<Instant> standing_at;
};

// One that cannot be dialled keeps the lines it opened for as long as it uses them; after this long
// without a word of it, it may have closed its line to us.
inline constexpr Duration kOwnLineKept = std::chrono::seconds(45);
// No NAT forgets it so soon: silence this soon after a word of it is its own.
inline constexpr Duration kOwnLineSure = std::chrono::seconds(25);
// There is a way to it: it can be dialled, or its own line or its relay's probably stands.
bool can_be_sent_to(const Peer& peer, Instant now);
// No connection leads to it: to a peer that cannot be dialled either it speaks through a relay.
bool is_out_of_reach(const Peer& peer, Instant now);
// From where it says to be callable; kUnspecified: it does not listen. A name tells nothing and
// counts as near.
Reach advertised_reach(const PeerRecord& record);
bool is_present(Health health);  // alive or suspect
bool is_gone(Health health);     // dead or left
// Of two records that one key signed under one incarnation the same one wins everywhere, whoever
// hears which first. Only a liar signs two; but then views would differ, and be compared, for ever.
bool outranks(const PeerRecord& one, const PeerRecord& other);
// True if `news` replaces `known`.
bool supersedes(const PeerRecord& news, const PeerRecord& known);

class PeerTable {
 public:
  enum class Change : std::uint8_t { kNone, kNew, kHealth, kProcess, kRefused };
  using RecordList = BoundedList<PeerRecord, kRecordsMax>;
  using AgeList = BoundedList<PeerAge, kAgesMax>;

  static constexpr Duration kStale = std::chrono::minutes(15);
  // The gone are remembered this long at most, also where there is room.
  static constexpr Duration kGoneKept = std::chrono::hours(24);

  PeerTable(std::uint32_t rows_max, Duration dead_kept)
      : rows_max_(rows_max),
        dead_kept_(dead_kept),
        forgotten_(kForgottenPerRow * std::size_t{rows_max}) {}

  // A record in which only the address or the refutation count has changed is stored, but reported
  // as kNone.
  // kRefused: no room, or the end of a stranger.
  Change merge(Instant now, const PeerRecord& record, Rng& rng);
  // The suspect whose row made room in a merge since the last call; nobody: none did.
  PeerId take_given_up() { return std::exchange(given_up_, PeerId{}); }
  void note_met(Peer& peer);  // its process has introduced itself
  Peer* find(PeerId id);
  const Peer* find(PeerId id) const;
  bool is_welcome(PeerId id) const;
  // The running process of a peer that may be a partner; empty if it may not.
  std::optional<PeerKey> process(PeerId id) const;
  void forget_old(Instant now, Rng& rng);  // looks at a few rows; call it now and then
  void forget(PeerId id);                  // unless a connection to it stands

  std::map<PeerId, Peer>& rows() { return rows_; }
  const std::map<PeerId, Peer>& rows() const { return rows_; }
  std::uint64_t count(Health health) const { return counts_[static_cast<std::size_t>(health)]; }
  std::uint64_t partners() const;  // alive and welcomed
  std::uint64_t partners_out_of_reach(Instant now) const;
  std::uint64_t present() const { return count(Health::kAlive) + count(Health::kSuspect); }
  std::uint64_t present_met_once() const { return present_met_once_; }
  std::uint64_t undialable() const { return undialable_; }  // of those present
  Reach farthest() const;  // advertised by any of those present that were met; looks at all rows
  bool full() const { return rows_.size() >= rows_max_; }  // the view is a sample
  // Others of the same swarm may have full tables and forget us between two messages.
  bool nearly_full() const { return rows_.size() >= rows_max_ - rows_max_ / 4; }

  // Every row once per round, in an order that is drawn anew for each round. Needs rows.
  Peer& next_in_round(Rng& rng);
  Peer& draw(Rng& rng);  // uniformly; needs rows
  const Peer& draw(Rng& rng) const;

  // The record of `reader` if it should be denied by it, then news; in a sample random ones too.
  void fill(RecordList& list, Instant now, PeerId reader, Rng& rng);
  // Signs of life of random present ones, where there is no sample only of those that nobody can
  // dial: of all others one's own probes tell.
  void fill_ages(AgeList& list, Instant now, PeerId reader, Rng& rng) const;
  void note_age(Instant now, const PeerAge& age);
  // Its record is news again, because it has changed.
  void tell(Peer& peer) { tell(peer, peer.met ? News::kOfMet : News::kOfHearsay); }
  static PeerRecord told(const Peer& peer, Instant now);  // as it is sent, with its age
  static std::size_t part_of(PeerId id);
  static std::uint64_t digest_of(const PeerRecord& record);
  // One digest per part of the view, over who is present with which process.
  const std::array<std::uint64_t, kBucketsMax>& digest() const { return digest_; }
  // Rows of the parts named in `wanted`, from a random one on, at most `most`.
  std::vector<PeerRecord> of_parts(const std::array<bool, kBucketsMax>& wanted, Instant now,
                                   std::size_t most, Rng& rng) const;
  // Of those present, at random, so many at most.
  void draw_some(RecordList& list, std::size_t most, Instant now, PeerId reader, Rng& rng) const;
  // Messages that carry a piece of news: a rumor that everybody retells a few times more than the
  // logarithm of the swarm's size reaches all but few (SWIM, section 4.1); comparison finds those.
  std::uint8_t tell_times() const;
  // All times of silence begin later by this much.
  void shift(Duration by);
  bool news_are_bounded() const;

 private:
  bool make_room(Instant now, const PeerRecord& record, Rng& rng);
  void erase(Peer& row);
  static Instant alive_at(Instant now, const PeerRecord& record);
  static void note_sign(Instant now, Peer& known, const PeerRecord& record);  // of life
  void toggle_in_digest(const Peer& row);
  void count_in(const Peer& row);
  void count_out(const Peer& row);
  void tell(Peer& peer, News kind);
  void drop_old_news(News kind);
  std::size_t news_max() const { return 2 * std::size_t{rows_max_}; }  // of one kind
  // A place of the round, with what is looked for in all places, lest every row be touched.
  struct Place {
    Peer* row;
    std::size_t part;
  };
  void move_to(std::size_t place, const Place& from);
  void fill_news(News kind, RecordList& list, std::size_t most, Instant now, PeerId reader,
                 Rng& rng);

  static constexpr std::size_t kForgottenPerRow = 4;
  // The way here counted as this long. Whoever passes on a record must make it older, never
  // younger: else it would go around for ever and stay as young as it is.
  static constexpr Duration kOnTheWay = std::chrono::seconds(1);

  std::uint32_t rows_max_;
  Duration dead_kept_;
  ForgottenPeers forgotten_;
  PeerId given_up_;
  std::map<PeerId, Peer> rows_;
  // Where a row is in rows_; never iterated: it has no order.
  std::unordered_map<PeerId, std::map<PeerId, Peer>::iterator> index_;
  std::vector<Place> round_;  // all rows; before next_ those already visited in this round
  std::size_t next_ = 0;
  // Rows with tell_left are in the list of their kind; other names linger a while.
  std::array<std::vector<PeerId>, 3> news_;
  std::array<std::uint64_t, 4> counts_{};
  std::uint64_t undialable_ = 0;
  std::uint64_t present_met_once_ = 0;
  std::array<std::uint64_t, kBucketsMax> digest_{};
};

}  // namespace starling::gossip

// Core: one peer's part of the protocol, without sockets, clock or dice. Membership, partner
// choice, exchanges and the swarm's token clock.
//
// Inputs are total: any input in any state is legal, `now` never goes back, and a hostile message
// is an input like another, counted and survived. After every input: drain poll_action() until
// empty, then arm one timer for next_deadline(). The output is a function of configuration,
// identity (with its seed) and inputs, bit for bit. Thread: one owner.
//
// The exchange follows the pair's two state tables in README.md: a responder stages, the initiator
// applies first (the commit point), the responder follows on Commit, and whatever was left in doubt
// is settled later by Query, Commit and compensation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/host.h"
#include "gossip/actions.h"
#include "gossip/config.h"
#include "gossip/record_seal.h"

namespace starling::gossip {

// The training data as a set of equal parts; peers with the same digest share them.
struct PartSpace {
  std::uint64_t digest = 0;
  std::uint16_t parts = 0;  // at most kPartsMax; 0: nothing to share
};

// How many stripes a partner may leave unanswered, at most, before this peer stops offering it
// exchanges. A healthy exchange can have up to two windows unanswered.
std::size_t owed_max(const GossipConfig& config);
// Deltas that may be in doubt at once, on either side of exchanges that are over: as many as a
// whole model has stripes, and where that is little, as many as some partners may owe together.
// `stripes`: of each fragment.
std::size_t in_doubt_max(const GossipConfig& config, std::span<const std::uint32_t> stripes);

struct CoreIdentity {
  // Address that others dial, and the key: its incarnation is the number of this process start
  // (higher than at any start before, below 2^48), as it stands in the keys of exchanges.
  PeerRecord self;
  const RecordSeal* seal = nullptr;  // of this peer; outlives the core
  RunIdentity run;
  std::vector<std::uint32_t> stripes;  // stripes of each fragment
  std::uint64_t seed = 0;
  PartSpace data{};
};

// How old weights are.
struct WeightsAge {
  double missed = 0;  // seconds of the others' training that they had not met when written
  // When that was, by the clock of this process; nothing: it is not known.
  std::optional<Instant> written{};
};

// What a restart brings back from its checkpoint; empty for a fresh peer.
struct RestoredState {
  std::vector<LedgerRow> ledger;
  std::vector<TokenEntry> tokens;
  std::vector<std::uint16_t> passes{};  // by part of the data; empty or of that size
  std::uint64_t inherited = 0;          // tokens of others in the weights this peer once began with
  WeightsAge age{};
};

// How one part of the data stands.
struct PartView {
  std::uint16_t passes = 0;  // times that somebody has read it to its end
  std::uint8_t claims = 0;   // others that are reading it now
  bool ours = true;          // this peer's by preference; alone it is all of them
  friend bool operator==(const PartView&, const PartView&) = default;
};

// So many partners must have shown how far they are before that is what is usual; where there are
// fewer, all.
inline constexpr std::uint32_t kVotersLeast = 3;

// What one fragment looks like to the mixer when it offers or accepts.
struct FragmentState {
  bool cold = true;       // no scales known, or outgrown: the next one uses the cold format
  float clip_radius = 0;  // RMS limit wanted; 0: none, or no difference was ever seen
  // RMS that the own last round moves it by in the end, momentum included, of the stripe where it
  // is largest; 0: not known.
  float step = 0;
  float difference = 0;      // RMS to partners, of the stripe where it is largest
  float first_radius = 0;    // the limit while the differences of few partners are known; 0: none
  std::uint32_t voters = 0;  // of so many they are
};

// Another peer as it is known here, for those who watch.
struct PeerView {
  PeerRecord record;
  bool partner = false;         // welcomed: exchanges with it are possible
  bool muted = false;           // by us
  bool doubtful = false;        // conduct.h: it was seen to act oddly, and is chosen less often
  bool rests = false;           // and this: its exchanges ended in silence, it is offered none
  bool relayed = false;         // only a relay leads to it
  Duration round_trip{};        // zero: not measured
  std::uint64_t tokens = 0;     // of all its processes, as far as known
  float tokens_per_second = 0;  // of the one that runs, as it says
  Standing standing;            // as it said with its last offer or acceptance
  std::optional<Instant> standing_at;
};

struct CoreStats {
  std::uint64_t peers_alive = 0, peers_suspect = 0, peers_dead = 0;
  std::uint64_t partners = 0;  // alive, and trusted on both sides
  std::uint64_t offers_sent = 0, offers_accepted = 0, offers_declined = 0, offers_timed_out = 0;
  std::uint64_t offers_received = 0, declines_sent = 0;
  std::uint64_t rounds_skipped = 0;  // published fragments for which no partner was found in time
  std::uint64_t stripes_applied = 0, stripes_compensated = 0, stripes_abandoned = 0;
  std::uint64_t stripes_orphaned = 0;  // applied here, outcome at the other side unknown for ever
  std::uint64_t exchanges_completed = 0, exchanges_failed = 0;
  std::uint64_t messages_refused = 0;      // from unknown or refused peers, or without meaning here
  std::uint64_t part_entries_refused = 0;  // about unknown parts of the data, or of no member
  std::uint64_t attempts_fenced = 0;       // for want of an answer in time
  std::uint64_t attempts_resumed = 0;      // fenced because their connection broke and came back
  std::uint64_t messages_muted = 0;        // of muted peers, dropped
  std::uint64_t mutes = 0, mutes_heard = 0;                      // by us, of us
  std::array<std::uint64_t, kRejectReasons> rejected{};          // by us
  std::array<std::uint64_t, kRejectReasons> rejections_heard{};  // by others, of what we sent
  double swarm_size = 1;                        // this peer included; an estimate beyond peers_max
  std::uint64_t lines_open = 0;                 // peers that lines are kept to
  std::uint64_t partners_relayed = 0;           // of them, those only a relay leads to
  std::uint64_t relays = 0, relay_holders = 0;  // who forward for us; for whom we do
  std::uint64_t health_score = 0;   // 0: healthy; higher: this peer is slow and knows it
  std::uint64_t peers_clipped = 0;  // that said they had trained more than counts
  bool split = false;               // many fell silent at once, and are not back
};

struct JoinProgress {
  bool fetching = false;  // others were found that have trained far more
  std::uint32_t pieces = 0, pieces_total = 0, donors = 0;
};

class Core {
 public:
  Core(const GossipConfig& config, const CoreIdentity& identity, const RestoredState& restored,
       Instant now);
  ~Core();
  Core(Core&&) noexcept;
  Core& operator=(Core&&) noexcept;

  // --- inputs: the network ---
  void on_join(Instant now, std::span<const PeerAddress> seeds);
  void on_message(Instant now, PeerId from, const Message& message);
  // The same, brought by the relay `through` and proved to be of `from` all the same.
  void on_relayed(Instant now, PeerId through, PeerId from, const Message& message);
  // This peer has forwarded, as RelayFor says, or would have if it had lines to both.
  void on_forwarded(Instant now, PeerId from, PeerId to);
  void on_send_failed(Instant now, PeerId to);
  // The transport has refused `id`, or was refused by it, before or beside any message.
  void on_refused(Instant now, PeerId id, const Refused& event);
  // From how far away others open connections to us now; kUnspecified: from nowhere.
  void on_reached(Instant now, Reach from);
  // A frame of a peer whose identity the transport has proved was dropped there.
  void on_bad_frame(Instant now, PeerId from, RejectReason reason);
  void on_deadline(Instant now);  // early or spurious calls do nothing
  void on_close(Instant now);     // no new exchanges; those under way may end
  // Whether new exchanges may begin at all, in either role: an owner's limits. Those under way end.
  void on_exchanges_allowed(Instant now, bool allowed);
  // Exchanges rest, so that the day's bytes last; newcomers and relayed peers are served on.
  void on_paced(Instant now, bool paced);
  // The wire format to wish for from now on, instead of the configured one.
  void on_format(Instant now, std::uint8_t format);
  // Who is on the allow-list from now on, of all that could be: of others no tokens count, and
  // nothing is heard that they say, or that is said of them. Nobody is left out before the first
  // call.
  void on_members(Instant now, std::span<const PeerId> members);
  void on_leave(Instant now);  // tell everybody and stop

  // --- inputs: this peer's own training ---
  // Fragment `fragment` has finished an outer step: offer it to somebody.
  void on_published(Instant now, FragmentId fragment, const FragmentState& state);
  void on_fragment_state(Instant now, FragmentId fragment, const FragmentState& state);
  // This peer's weights are unusable: it offers nothing and declines what is offered.
  void on_sick(Instant now);
  // `tokens`: trained since this process started; what earlier lives trained is in the restored
  // map.
  void on_progress(Instant now, std::uint64_t tokens, float tokens_per_second);
  void on_standing(Instant now, const Standing& standing);  // to be told to partners from now on
  // A part of the data was read to its end, so many times since this was last told.
  void on_part_finished(Instant now, std::uint16_t part, std::uint16_t times);
  // The parts that are being read from now on, all of them; at most kPartsHeldMax.
  void on_parts_held(Instant now, std::span<const std::uint16_t> parts);

  // --- inputs: answers of the mixer ---
  void on_encoded(Instant now, const StripeRef& ref, const Verdict& verdict,
                  std::size_t payload_bytes);
  void on_staged(Instant now, const StripeRef& ref, const Verdict& verdict,
                 std::size_t payload_bytes);
  void on_applied(Instant now, const StripeRef& ref, const Verdict& verdict);
  void on_compensated(Instant now, const StripeRef& ref);

  // --- inputs: the keeper of states ---
  // With FetchState, before on_join, the peer is a newcomer that takes part in no exchange until
  // JoinEnded.
  void on_state(Instant now, const StateInput& input);

  // --- outputs ---
  std::optional<Action> poll_action();
  std::optional<Instant> next_deadline() const;

  // --- observers ---
  // The swarm's tokens: what each peer counts for (token_shares.h), plus what live peers have done
  // since they were heard. It falls where peers count no longer, or for less.
  double swarm_tokens(Instant now) const;
  // How fast this peer trains over the fastest live one, by what they say of themselves; 1: it is
  // that itself, or knows of nobody. Whoever says absurdly much counts for a bound
  // (token_shares.h).
  double speed_share() const;
  PeerId fastest_peer() const;  // by what all say; zero: nobody has said
  // As many peers of one speed are worth as much as the living ones that say theirs, this one among
  // them (rate_weight.h). At least 1, which it is where nobody is known.
  double equal_peers() const;
  std::vector<TokenEntry> token_map() const;
  std::vector<PartView> parts() const;    // of the data
  const PeerRecord& self() const;         // as told to others
  std::vector<PeerRecord> peers() const;  // the others, whatever their health
  // Those of them that matter most to a watcher, at most `most`: partners, then the present, then
  // those heard last. Looks at every row.
  std::vector<PeerView> peer_views(Instant now, std::size_t most) const;
  std::size_t exchanges_open() const;     // leases held, both roles
  std::size_t stripes_unsettled() const;  // applied here, not yet acknowledged
  float weight() const;                   // 0 while a newcomer, else by its speed: rate_weight.h
  Footing footing() const;
  double missed() const;  // seconds: see FootingChanged
  // For a checkpoint of now. As long as nobody has told how late this peer began, it is as old as
  // what it began with.
  WeightsAge age(Instant now) const;
  JoinProgress join_progress() const;
  // Its messages, but for its signs of life, are dropped: nothing of it need be looked at.
  bool muted(Instant now, PeerId peer) const;
  std::size_t peers_muted(Instant now) const;
  // How long a payload to it may take, by what was measured of it; zero: nothing was.
  Duration payload_within(PeerId peer, std::size_t bytes) const;
  CoreStats stats() const;
  void assert_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::gossip

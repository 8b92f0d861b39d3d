// What peers say to each other. Plain fixed-size structs, so that no decoded size can hurt us;
// validity beyond ranges (who may say what when) is the core's business, not the struct's. Control
// messages are small and travel on the control lane. Push and Delta are heads: each is followed, in
// the same frame, by a payload that only the mixer understands, on the bulk lane. Nobody goes by
// the clock of another: an age is a duration. Thread: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bounded.h"
#include "base/ids.h"
#include "gossip/public_key.h"
#include "gossip/reject_reason.h"
#include "gossip/standing.h"
#include "gossip/state_pieces.h"

namespace starling::gossip {

inline constexpr std::size_t kHostBytesMax = 64;
inline constexpr std::size_t kRecordsMax = 16;         // membership records in one ping or pong
inline constexpr std::size_t kAgesMax = 16;            // signs of others' lives in one ping or pong
inline constexpr std::size_t kTokensMax = 8;           // token entries in one ping or pong
inline constexpr std::uint16_t kPartsMax = 4096;       // parts that a data set is divided into
inline constexpr std::size_t kPartsHeldMax = 8;        // parts that one peer reads at the same time
inline constexpr std::size_t kPartPassesMax = 192;     // in one Parts
inline constexpr std::size_t kPartClaimsMax = 24;      // in one Parts
inline constexpr std::size_t kBucketsMax = 64;         // parts of a view that a digest tells apart
inline constexpr std::size_t kMinimaMax = 128;         // of a TokenSketch
inline constexpr std::size_t kRelaysMax = 2;           // that one peer has at the same time
inline constexpr std::size_t kExtensionBytesMax = 32;  // of a record, for later versions
inline constexpr std::size_t kSketchSize = 64;         // of the weights of a state

// The versions of the wire that a peer speaks, both included; a pair, the highest of both
// (wire/wire.h).
struct Versions {
  std::uint8_t min = 1;
  std::uint8_t max = 1;
  friend bool operator==(const Versions&, const Versions&) = default;
};
inline constexpr Versions kVersions{1, 4};
std::optional<std::uint8_t> common_version(Versions ours, Versions theirs);

// Where a peer is, and who it is that answers there: host name or IP literal, the ports of the two
// lanes, its key. A peer that does not listen has no host and ports zero.
struct PeerAddress {
  BoundedList<char, kHostBytesMax> host;
  std::uint16_t control_port = 0;
  std::uint16_t bulk_port = 0;
  PublicKey key;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};
// Fails (false) if the host is empty or longer than kHostBytesMax.
[[nodiscard]] bool set_host(PeerAddress& address, std::string_view host);
std::string_view host(const PeerAddress& address);
std::string to_string(const PeerAddress& address);  // host:control_port
bool listens(const PeerAddress& address);

// One run of one peer's process; a restart has a higher incarnation. In exchanges and token entries
// it is the number of the process start. In a PeerRecord (and Leave) the refutations, by which a
// peer denies rumors of its death, stand below it: start << kRefutationBits | refutations. So a
// denied rumor wins over the rumor and still breaks nothing that is under way.
inline constexpr unsigned kRefutationBits = 24;
struct PeerRecord;
struct PeerKey {
  PeerId id;
  std::uint64_t incarnation = 0;
  friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
};
PeerKey process_of(const PeerRecord& record);
PeerKey record_key(const PeerKey& process, std::uint64_t refutations);
std::uint64_t refutations_of(const PeerRecord& record);

// What must be equal before two peers exchange a single parameter.
struct RunIdentity {
  std::uint64_t run = 0;     // digest of its name and of what it began with
  std::uint64_t model = 0;   // digest of the architecture and the tokenizer
  std::uint64_t layout = 0;  // digest of the parameter layout: fragments and stripes
  Versions versions = kVersions;
  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

enum class Health : std::uint8_t { kAlive, kSuspect, kDead, kLeft };

// Gossip about one peer. Order: a higher incarnation wins; for equal ones the larger Health wins.
// All but health, accuser and age, and that it has left, is signed by the peer itself:
// record_seal.h.
struct PeerRecord {
  PeerKey key;
  PeerAddress address;
  Health health = Health::kAlive;
  // Others can open connections to it. A peer says so of itself once somebody has; until then
  // nobody tries for long, and it takes part over the connections it opened.
  bool dialable = true;
  PeerId accuser{};         // who found it silent; nobody for one that is alive or has left
  std::uint16_t age_s = 0;  // on the way: seconds since it was last known to live
  bool forwards = false;    // between peers that cannot reach each other, if they ask
  // Those that forward to it, who cannot be dialled.
  BoundedList<PeerId, kRelaysMax> relays{};
  // What later versions of the wire have it say of itself; carried and vouched for by those who do
  // not understand it (record_seal.h). Empty in version 1.
  BoundedList<std::uint8_t, kExtensionBytesMax> extension{};
  Signature signature{};
  friend bool operator==(const PeerRecord&, const PeerRecord&) = default;
};

// A sign of life of somebody, so many seconds old.
struct PeerAge {
  PeerId id;
  std::uint16_t age_s = 0;
  friend bool operator==(const PeerAge&, const PeerAge&) = default;
};

// No count above these is believed of anybody. Tokens of one process, or behind one state: a
// machine that trains a hundred million in a second needs eight months for them, and a sum over all
// that a peer knows of does not overflow. Steps behind a state: a thousand in a second for 34
// years.
inline constexpr std::uint64_t kTokensOfProcessMax = std::uint64_t{1} << 51;
inline constexpr std::uint64_t kStepsOfStateMax = std::uint64_t{1} << 40;

// One row of the grow-only token map: what a process has trained so far, as its peer signed it
// (token_seal.h).
struct TokenEntry {
  PeerKey key;
  std::uint64_t tokens = 0;
  float rate = 0;     // tokens per second
  PublicKey owner{};  // the peer's; key.id is that of this key
  Signature signature{};
  std::uint16_t age_s = 0;  // on the way: seconds since the count was that. Not signed
  friend bool operator==(const TokenEntry&, const TokenEntry&) = default;
};

// Names one exchange for ever: both incarnations are part of it, so that a restarted peer never
// takes part in an exchange of its former life.
struct ExchangeKey {
  PeerKey initiator;
  PeerKey responder;
  std::uint64_t counter = 0;  // unique per initiator incarnation, counts up from 1
  friend auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
};

// One attempt at one stripe of one exchange.
struct StripeRef {
  ExchangeKey exchange;
  FragmentId fragment;
  std::uint32_t stripe = 0;  // index within the fragment
  std::uint8_t attempt = 0;
  friend auto operator<=>(const StripeRef&, const StripeRef&) = default;
};

// At one stripe. An initiator keeps to it, so a responder takes no attempt beyond.
inline constexpr std::uint8_t kAttemptsMax = 16;
StripeRef stripe_key(StripeRef ref);  // the stripe itself, whatever the attempt: with attempt 0
// Both sides derive the dither of a stripe from this. Fresh for every attempt.
std::uint64_t dither_key(const StripeRef& ref);

enum class RefuseReason : std::uint8_t {
  kProtocol,
  kRun,
  kModel,
  kLayout,
  kSelf,
  kNotAllowed,  // its key is not on the allow-list
  kSecret       // it has not proved that it knows the swarm's secret
};
// About who may take part, not about what runs.
bool is_about_trust(RefuseReason reason);
enum class DeclineReason : std::uint8_t {
  kBusy,
  kLeased,
  kUnknownPeer,
  kBadOffer,
  kClosing,
  kResting,  // its owner allows no exchanges now
  kSick,     // its own weights are not finite
  kMuted     // it has proof against the offering peer; said once
};
std::string_view to_string(RefuseReason reason);
std::string_view to_string(DeclineReason reason);
std::string_view to_string(Health health);

// That a greeter knows the swarm's secret. The link makes and checks it; zero where there is none.
struct SecretProof {
  std::array<std::uint8_t, 32> bytes{};
  friend bool operator==(const SecretProof&, const SecretProof&) = default;
};

// --- membership ---
// Greetings, said before the sides know each other's versions: these three never look different.
struct Hello {
  PeerRecord self;
  RunIdentity identity;
  SecretProof proof{};
};
struct Welcome {
  PeerRecord self;
  RunIdentity identity;
  SecretProof proof{};
};
struct Refuse {
  RefuseReason reason{};
  RunIdentity identity;
  PeerAddress address{};  // of who refuses
};
struct Ping {
  std::uint64_t nonce = 0;
  BoundedList<PeerRecord, kRecordsMax> records;
  BoundedList<PeerAge, kAgesMax> ages;
  BoundedList<TokenEntry, kTokensMax> tokens;
};
struct Pong {
  std::uint64_t nonce = 0;
  BoundedList<PeerRecord, kRecordsMax> records;
  BoundedList<PeerAge, kAgesMax> ages;
  BoundedList<TokenEntry, kTokensMax> tokens;
  std::uint64_t time_of_day = 0;  // version 2, for doctor: clock_offsets.h; 0: not told
};
struct Leave {
  PeerRecord self;
};

// --- exchange, control lane ---
struct Offer {
  ExchangeKey exchange;
  FragmentId fragment;
  std::uint32_t stripes = 0;
  std::uint8_t format = 0;        // the wire format wanted; opaque here
  bool cold = false;              // no scales, or outgrown ones: ask for the format without
  float weight = 1;               // mass of the initiator
  float mixing = 0.5F;            // g, the largest it grants
  float clip_radius = 0;          // RMS limit it wants; 0: none
  std::uint32_t patience_ms = 0;  // how long it waits for an answer to a payload, at first
  Standing standing{};
  float lag_s = 0;  // version 4: of its fragment (freshness.h)
};
struct Accept {
  ExchangeKey exchange;
  std::uint8_t format = 0;   // the format to use
  float weight = 1;          // mass of the responder
  float mixing = 0.5F;       // agreed: the smaller of both
  float clip_radius = 0;     // agreed: the smaller nonzero of both
  std::uint16_t window = 1;  // stripes that may be under way at once
  Standing standing{};
  float lag_s = 0;  // version 4: likewise
};
inline constexpr float kClipRadiusMin = 1e-30F;  // but 0; no weights are nearer
// Weight and mixing are fractions and the clip radius a length: the wire carries any float.
bool has_sound_terms(const Offer& offer);
bool has_sound_terms(const Accept& accept);
struct Decline {
  ExchangeKey exchange;
  DeclineReason reason{};
  std::uint32_t retry_after_ms = 0;
};
struct Commit {
  StripeRef ref;
};  // initiator: applied; do the same
struct Committed {
  StripeRef ref;
};  // responder: applied
struct Abandoned {
  StripeRef ref;
  RejectReason reason = RejectReason::kNone;
};  // responder: will never apply; undo yours
struct Abort {
  StripeRef ref;
  RejectReason reason = RejectReason::kNone;
};  // initiator: attempts up to this one will never be applied
struct Query {
  StripeRef ref;
};  // responder: what became of it?
struct Resend {
  StripeRef ref;
};  // initiator: the delta was lost; send the same again
struct Finish {
  ExchangeKey exchange;
};  // initiator: nothing more will come; end the lease

// --- exchange, bulk lane: heads of a payload ---
struct Push {
  StripeRef ref;
};
struct Delta {
  StripeRef ref;
};

// --- training data: which part has been read how often, and who reads which now ---
struct PartPasses {
  std::uint16_t part = 0;
  std::uint16_t passes = 0;  // times that somebody has read it to its end
  friend bool operator==(const PartPasses&, const PartPasses&) = default;
};
struct PartClaim {
  PeerKey holder;
  std::uint64_t sequence = 0;  // counts the claims of this process: the latest holds
  BoundedList<std::uint16_t, kPartsHeldMax> parts;
  friend bool operator==(const PartClaim&, const PartClaim&) = default;
};
struct Parts {
  std::uint64_t space = 0;  // digest of the data: means nothing to a peer with other data
  BoundedList<PartPasses, kPartPassesMax> passes;
  BoundedList<PartClaim, kPartClaimsMax> claims;
};

// --- state for a newcomer ---
struct StateDigest {
  std::array<std::uint8_t, 32> bytes{};  // BLAKE2b-256
  friend bool operator==(const StateDigest&, const StateDigest&) = default;
};
// Random signed sums of the slow weights. The distance between two sketches is about the distance
// between the weights, so donors can be compared before anything large is sent.
struct StateSketch {
  std::array<float, kSketchSize> values{};
  friend bool operator==(const StateSketch&, const StateSketch&) = default;
};
enum class StateReason : std::uint8_t {
  kBusy,
  kPreparing,
  kNoSnapshot,
  kNewcomer,
  kUnwilling,
  kGone,
  kClosing,
  kFinished,
  kWrong  // newcomer: what came is not what was promised
};
std::string_view to_string(StateReason reason);

struct StateRequest {};  // newcomer: what could you give me?
struct StateOffer {
  std::uint64_t snapshot = 0;  // names the checkpoint; never zero
  std::uint64_t step = 0;      // inner steps behind it
  std::uint64_t tokens = 0;    // that its weights were trained with, as far as one peer can tell
  BoundedList<StateDigest, kManifestPartsMax> manifest;  // digest of each part
  StateSketch sketch;
};
// Donor: not (any more); newcomer, with kFinished or kWrong: I need no more.
struct StateDeclined {
  StateReason reason{};
  std::uint32_t retry_after_ms = 0;
};
struct PieceRequest {
  std::uint64_t snapshot = 0;
  std::uint32_t piece = 0;
  std::uint32_t received = 0;  // pieces that have arrived from this donor
};
struct Piece {  // bulk lane: head of a payload
  std::uint64_t snapshot = 0;
  std::uint32_t piece = 0;
};

// --- the link's own ---
// Opens the bulk lane from the side that can dial, so that the other side can send on it. Travels
// on the bulk lane, without a payload; the core never sees it.
struct BulkHello {};

// --- membership: about others ---
struct PingRequest {
  std::uint64_t nonce = 0;
  PeerRecord target;
};  // I hear nothing from it: do you?
struct PingAnswer {
  std::uint64_t nonce = 0;
  PeerId target;
  bool reached = false;
};  // false: asked, and nothing heard in time
struct Digest {
  bool answer = false;                              // to a digest: no further one is wanted
  BoundedList<std::uint64_t, kBucketsMax> buckets;  // empty: the view is a sample
  BoundedList<float, kMinimaMax> minima;
};
struct Records {
  BoundedList<PeerRecord, kRecordsMax> records;
};  // of what digests told apart

// --- relays: for peers that cannot be dialled ---
struct RelayAsk {
  bool wanted = true;
};  // forward to me what peers send that cannot reach me otherwise; or: no longer
struct RelayGrant {
  std::uint32_t lease_ms = 0;
};  // yes, until then; ask again before
struct RelayDecline {
  std::uint32_t retry_after_ms = 0;
};  // no, or no longer

using Message =
    std::variant<Hello, Welcome, Refuse, Ping, Pong, Leave, Offer, Accept, Decline, Commit,
                 Committed, Abandoned, Abort, Query, Resend, Finish, Push, Delta, Parts,
                 StateRequest, StateOffer, StateDeclined, PieceRequest, Piece, BulkHello,
                 PingRequest, PingAnswer, Digest, Records, RelayAsk, RelayGrant, RelayDecline>;

bool is_bulk(const Message& message);      // the head of a payload
bool is_greeting(const Message& message);  // Hello, Welcome or Refuse

}  // namespace starling::gossip

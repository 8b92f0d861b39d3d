#include "gossip/net/envelope.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gossip/net/envelope_limit.h"

namespace starling::gossip {
namespace {

using Buffer = std::vector<std::byte>;

Identity identity(std::uint8_t number) {
  for (SeedBytes seed{number};; ++seed[1]) {
    if (auto found = Identity::from_seed(seed)) return *found;
  }
}

const Identity kAnnaKey = identity(1);
const Identity kBertKey = identity(2);
const Identity kCleoKey = identity(3);
constexpr std::uint64_t kAnnaProcess = 7;
constexpr std::uint64_t kBertProcess = 9;

Buffer text(std::string_view words) {
  Buffer bytes(words.size());
  std::transform(words.begin(), words.end(), bytes.begin(),
                 [](char letter) { return static_cast<std::byte>(letter); });
  return bytes;
}

struct Pair {
  Sealer anna{kAnnaKey, kAnnaProcess};
  Sealer bert{kBertKey, kBertProcess};

  Buffer seal(std::span<const std::byte> frame, bool bulk = false) {
    Buffer envelope(frame.size() + kEnvelopeBytes);
    REQUIRE(anna.seal({kBertKey.key(), kBertProcess}, bulk, frame, envelope));
    return envelope;
  }
};

EnvelopeFault open_at(Sealer& receiver, const Buffer& envelope, Buffer* out = nullptr) {
  const auto head = read_head(envelope);
  if (!head) return EnvelopeFault::kMalformed;
  Buffer frame(envelope.size() - kEnvelopeBytes);
  const EnvelopeFault fault = receiver.open(envelope, *head, frame);
  if (out != nullptr) *out = frame;
  return fault;
}

}  // namespace

TEST_CASE("what was sealed comes out as it went in, on both lanes and of every size") {
  Pair pair;
  Rng rng(1);
  for (std::size_t size : {1U, 31U, 32U, 4096U, 1U << 20U}) {
    Buffer frame(size);
    for (std::byte& byte : frame) byte = static_cast<std::byte>(rng.next());
    for (const bool bulk : {false, true}) {
      const Buffer envelope = pair.seal(frame, bulk);
      CHECK(is_envelope(envelope));
      const auto head = read_head(envelope);
      REQUIRE(head.has_value());
      CHECK(head->bulk == bulk);
      CHECK(head->from == kAnnaKey.key());
      CHECK(head->to == kBertKey.id());
      CHECK(head->from_process == kAnnaProcess);
      Buffer out;
      CHECK(open_at(pair.bert, envelope, &out) == EnvelopeFault::kNone);
      CHECK(out == frame);
    }
  }
}

TEST_CASE("a relay sees nothing of what it carries, and the same twice looks different") {
  Pair pair;
  const Buffer frame = text("a sentence that must not be seen by anybody on the way");
  const Buffer first = pair.seal(frame);
  const Buffer second = pair.seal(frame);
  const auto shows = [&](const Buffer& envelope) {
    return std::search(envelope.begin(), envelope.end(), frame.begin(), frame.begin() + 8) !=
           envelope.end();
  };
  CHECK(!shows(first));
  CHECK(!shows(second));
  CHECK(!std::equal(first.begin() + kEnvelopeHeadBytes, first.end(),
                    second.begin() + kEnvelopeHeadBytes));
}

TEST_CASE("an envelope with any bit changed opens nowhere") {
  Pair pair;
  const Buffer envelope = pair.seal(text("commit"));
  std::set<EnvelopeFault> faults;
  for (std::size_t bit = 0; bit < 8 * envelope.size(); ++bit) {
    CAPTURE(bit);
    Buffer changed = envelope;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const EnvelopeFault fault = open_at(pair.bert, changed);
    CHECK(fault != EnvelopeFault::kNone);
    faults.insert(fault);
  }
  // Each region has its own: form, receiver, receiver's process, everything else.
  CHECK(faults == std::set{EnvelopeFault::kMalformed, EnvelopeFault::kMisdirected,
                           EnvelopeFault::kOtherProcess, EnvelopeFault::kForged});
  CHECK(open_at(pair.bert, envelope) == EnvelopeFault::kNone);  // none of them used it up
}

TEST_CASE("an envelope that was cut, or that something was added to, opens nowhere") {
  Pair pair;
  const Buffer envelope = pair.seal(text("delta"));
  for (std::size_t size = 0; size < envelope.size(); ++size) {
    CAPTURE(size);
    Buffer cut(envelope.begin(), envelope.begin() + static_cast<std::ptrdiff_t>(size));
    const EnvelopeFault fault = open_at(pair.bert, cut);
    CHECK(fault == (size <= kEnvelopeBytes ? EnvelopeFault::kMalformed : EnvelopeFault::kForged));
  }
  Buffer longer = envelope;
  longer.push_back(std::byte{});
  CHECK(open_at(pair.bert, longer) == EnvelopeFault::kForged);
}

TEST_CASE("an envelope opens once, whatever the order, and not long after later ones") {
  Pair pair;
  std::vector<Buffer> envelopes;
  for (int i = 0; i < 2000; ++i) envelopes.push_back(pair.seal(text("ping")));
  // Backwards within the window.
  for (std::size_t i = 500; i-- > 0;) {
    CHECK(open_at(pair.bert, envelopes[i]) == EnvelopeFault::kNone);
  }
  for (std::size_t i = 0; i < 500; ++i) {
    CHECK(open_at(pair.bert, envelopes[i]) == EnvelopeFault::kReplayed);
  }
  // A jump: what lies just within the window still opens, what lies before it does not.
  CHECK(open_at(pair.bert, envelopes[1999]) == EnvelopeFault::kNone);
  CHECK(open_at(pair.bert, envelopes[2000 - Sealer::kWindow]) == EnvelopeFault::kNone);
  CHECK(open_at(pair.bert, envelopes[2000 - Sealer::kWindow]) == EnvelopeFault::kReplayed);
  CHECK(open_at(pair.bert, envelopes[975]) == EnvelopeFault::kReplayed);  // too old to tell
  const Buffer far = pair.seal(text("far"));
  for (std::size_t i = 0; i < Sealer::kWindow; ++i) static_cast<void>(pair.seal(text("lost")));
  CHECK(open_at(pair.bert, pair.seal(text("newest"))) == EnvelopeFault::kNone);
  CHECK(open_at(pair.bert, far) == EnvelopeFault::kReplayed);
}

TEST_CASE("an envelope for one peer cannot be opened by another, nor turned into one for it") {
  Pair pair;
  Sealer cleo(kCleoKey, kBertProcess);
  Buffer envelope = pair.seal(text("for Bert"));
  CHECK(open_at(cleo, envelope) == EnvelopeFault::kMisdirected);
  const std::uint64_t other = kCleoKey.id().value;
  std::memcpy(envelope.data() + 8, &other, sizeof other);
  CHECK(open_at(cleo, envelope) == EnvelopeFault::kForged);
  CHECK(open_at(pair.bert, envelope) == EnvelopeFault::kMisdirected);
}

TEST_CASE("nobody can seal in another's name") {
  Pair pair;
  Sealer cleo(kCleoKey, kAnnaProcess);
  Buffer envelope(4 + kEnvelopeBytes);
  REQUIRE(cleo.seal({kBertKey.key(), kBertProcess}, false, text("mine"), envelope));
  std::copy_n(reinterpret_cast<const std::byte*>(kAnnaKey.key().bytes.data()), 32,
              envelope.begin() + 16);
  CHECK(open_at(pair.bert, envelope) == EnvelopeFault::kForged);
  // And Anna's cannot be passed off as Cleo's.
  Buffer annas = pair.seal(text("mine"));
  std::copy_n(reinterpret_cast<const std::byte*>(kCleoKey.key().bytes.data()), 32,
              annas.begin() + 16);
  CHECK(open_at(pair.bert, annas) == EnvelopeFault::kForged);
}

TEST_CASE("what was recorded for one life of a peer is worth nothing in the next") {
  Pair pair;
  const Buffer recorded = pair.seal(text("hello"));
  Sealer reborn(kBertKey, kBertProcess + 1);
  CHECK(open_at(reborn, recorded) == EnvelopeFault::kOtherProcess);
}

TEST_CASE("a peer that was restarted is heard, and what it said before no more") {
  Pair pair;
  const Buffer before = pair.seal(text("before"));
  CHECK(open_at(pair.bert, pair.seal(text("and"))) == EnvelopeFault::kNone);
  Sealer reborn(kAnnaKey, kAnnaProcess + 1);
  Buffer after(5 + kEnvelopeBytes);
  REQUIRE(reborn.seal({kBertKey.key(), kBertProcess}, false, text("after"), after));
  CHECK(open_at(pair.bert, after) == EnvelopeFault::kNone);
  CHECK(open_at(pair.bert, before) == EnvelopeFault::kReplayed);
}

TEST_CASE("a sealer that has met more peers than it remembers goes on without repeating itself") {
  Pair pair;
  std::set<std::uint64_t> counters;
  std::vector<Identity> crowd;
  for (std::size_t i = 0; i <= Sealer::kEndsMax; ++i) crowd.push_back(Identity::draw());
  counters.insert(read_head(pair.seal(text("first")))->counter);
  for (const Identity& other : crowd) {
    Buffer envelope(1 + kEnvelopeBytes);
    REQUIRE(pair.anna.seal({other.key(), 1}, false, text("x"), envelope));
  }
  // Bert was forgotten; he still gets higher counters than before.
  const Buffer again = pair.seal(text("again"));
  CHECK(read_head(again)->counter > *counters.begin());
  CHECK(open_at(pair.bert, again) == EnvelopeFault::kNone);
}

TEST_CASE("no crowd of strangers makes room for a copy of what a partner has said") {
  Pair pair;
  Sealer bert(kBertKey, kBertProcess, [](const PublicKey& key) { return key == kAnnaKey.key(); });
  const Buffer said = pair.seal(text("said"));
  REQUIRE(open_at(bert, said) == EnvelopeFault::kNone);
  for (std::size_t i = 0; i <= Sealer::kEndsMax; ++i) {
    Sealer stranger(Identity::draw(), 1);
    Buffer envelope(1 + kEnvelopeBytes);
    REQUIRE(stranger.seal({kBertKey.key(), kBertProcess}, false, text("x"), envelope));
    REQUIRE(open_at(bert, envelope) == EnvelopeFault::kNone);
  }
  CHECK(open_at(bert, said) == EnvelopeFault::kReplayed);
}

TEST_CASE("random bytes are no envelope, and a key that is no point of the curve opens none") {
  Rng rng(5);
  Pair pair;
  for (int i = 0; i < 2000; ++i) {
    Buffer bytes(rng.below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
    CHECK(open_at(pair.bert, bytes) == EnvelopeFault::kMalformed);
  }
  // Any 32 bytes as the sender's key.
  const Buffer envelope = pair.seal(text("x"));
  for (int i = 0; i < 300; ++i) {
    Buffer changed = envelope;
    for (std::size_t at = 16; at < 48; ++at) changed[at] = static_cast<std::byte>(rng.next());
    changed[47] &= std::byte{0x7F};
    CHECK(open_at(pair.bert, changed) == EnvelopeFault::kForged);
  }
}

TEST_CASE("of one bringer so many are opened, and of many together") {
  EnvelopeLimit limit;
  Instant now = Instant{} + std::chrono::hours(1);
  const auto taken = [&](std::uint64_t bringer) {
    int count = 0;
    while (limit.take(now, PeerId{bringer})) ++count;
    return count;
  };
  CHECK(taken(1) == EnvelopeLimit::kAtOnce);
  CHECK(taken(2) == EnvelopeLimit::kAtOnceInAll - EnvelopeLimit::kAtOnce);
  CHECK(taken(3) == 0);
  now += std::chrono::seconds(1);
  CHECK(taken(1) == EnvelopeLimit::kPerSecond);
  CHECK(taken(2) == EnvelopeLimit::kPerSecond);
  // Two who bring what is forged leave most to whoever else brings some.
  CHECK(taken(3) == EnvelopeLimit::kPerSecondInAll - 2 * EnvelopeLimit::kPerSecond);
  for (std::uint64_t bringer = 1; bringer < 5000; ++bringer) {
    CHECK(!limit.take(now, PeerId{bringer}));
    CHECK(limit.bringers() <= EnvelopeLimit::kBringersMax);
  }
}

}  // namespace starling::gossip

// What a mixer does with payloads in any format that are bad, come twice or come late: of each kind
// is shown that no weight changed that should not, and no slot is kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "optim/block_scales.h"
#include "optim/lattice.h"
#include "tests/peer/roles/mixer_bench.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;
using gossip::StripeRef;
using optim::WireFormat;
using testing::apply;
using testing::begun_here;
using testing::begun_there;
using testing::stage;
using Bench = testing::MixerBench;
using Payload = testing::MixerBench::Payload;

struct Kind {
  std::string name;
  RejectReason reason;
  void (*spoil)(Payload&);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"nothing", RejectReason::kMalformed, [](Payload& payload) { payload.clear(); }},
      {"cut", RejectReason::kMalformed, [](Payload& payload) { payload.pop_back(); }},
      {"too long", RejectReason::kMalformed,
       [](Payload& payload) { payload.push_back(std::byte{0}); }},
      {"an unknown version", RejectReason::kMalformed,
       [](Payload& payload) { payload[1] = std::byte{200}; }},
      {"an unknown format", RejectReason::kMalformed,
       [](Payload& payload) { payload[0] = std::byte{250}; }},
      {"of another stripe", RejectReason::kMalformed,
       [](Payload& payload) { payload[4] ^= std::byte{1}; }},
      {"clipped to nothing that there is", RejectReason::kMalformed,
       [](Payload& payload) {
         const float factor = std::nanf("");
         std::memcpy(payload.data() + 8, &factor, sizeof(factor));
       }},
  };
  return kKinds;
}

}  // namespace

TEST_CASE("a sound stripe moves the weights by half, on either side, in any format") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    const StripeRef theirs = begun_there(1), ours = begun_here(1);
    const Payload push = bench.push_of(format, theirs, bench.theirs());
    REQUIRE(bench.perform<Staged>(stage(theirs, format), push)->verdict.done());
    CHECK(bench.slow() == bench.before);  // not before the commit
    REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{theirs})->verdict.done());
    const float once = bench.mixer.slow()[0] - bench.before[0];
    CHECK(once > 0.25F * Bench::kApart);  // half, but for what the format rounds
    CHECK(once < 0.75F * Bench::kApart);
    bench.pass_rounds(1);
    const Payload delta = bench.delta_of(format, ours);
    REQUIRE(bench.perform<Applied>(apply(ours, format), delta)->verdict.done());
    const float twice = bench.mixer.slow()[0] - bench.before[0];
    CHECK(twice - once > 0.25F * Bench::kApart);
    CHECK(twice - once < 0.75F * Bench::kApart);
  }
}

TEST_CASE("a bad payload in any format changes no weight and keeps no slot") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    std::uint64_t counter = 0, refused = 0;
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name);
      const StripeRef theirs = begun_there(++counter), ours = begun_here(counter);
      Payload push = bench.push_of(format, theirs, bench.theirs());
      kind.spoil(push);
      const auto staged = bench.perform<Staged>(stage(theirs, format), push);
      REQUIRE(staged);
      CHECK(staged->verdict.reason == kind.reason);
      Payload delta = bench.delta_of(format, ours);
      kind.spoil(delta);
      const auto applied = bench.perform<Applied>(apply(ours, format), delta);
      REQUIRE(applied);
      CHECK(applied->verdict.reason == kind.reason);
      refused += 2;
      CHECK(bench.metrics.payloads_refused.value() == refused);
      CHECK(bench.slow() == bench.before);
      CHECK(bench.keeps_no_slot());
    }
  }
}

TEST_CASE("a stripe that is staged or committed again moves the weights once") {
  Bench bench;
  const StripeRef ref = begun_there(1);
  const Payload push = bench.push_of(WireFormat::kMod8, ref, bench.theirs());
  REQUIRE(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push)->verdict.done());
  const auto again = bench.perform<Staged>(stage(ref, WireFormat::kMod8), push);
  CHECK(again->verdict.reason == RejectReason::kRepeated);
  CHECK(bench.metrics.payloads_refused.value() == 1);
  REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());
  const std::vector<float> once = bench.slow();
  CHECK(once != bench.before);
  bench.pass_rounds(1);
  static_cast<void>(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push));
  CHECK(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());  // it is in the ledger
  CHECK(bench.slow() == once);
  bench.pass_rounds(1);
  CHECK(bench.keeps_no_slot());
}

TEST_CASE("an answer that comes again moves the weights once, also after a restart") {
  Bench bench;
  const StripeRef ref = begun_here(1);
  const Payload delta = bench.delta_of(WireFormat::kMod8, ref);
  REQUIRE(bench.perform<Applied>(apply(ref, WireFormat::kMod8), delta)->verdict.done());
  const std::vector<float> once = bench.slow();
  CHECK(once != bench.before);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kMod8), delta)->verdict.done());
  CHECK(bench.slow() == once);

  CheckpointImage image(bench.layout.elements(), true);
  image.slow = once;
  image.ledger = bench.mixer.ledger_rows();
  Bench later;
  later.mixer.restore(image);
  const Payload sent_again = later.delta_of(WireFormat::kMod8, ref);
  const auto applied = later.perform<Applied>(apply(ref, WireFormat::kMod8), sent_again);
  CHECK(applied->verdict.reason == RejectReason::kRepeated);
  CHECK(later.slow() == once);
  CHECK(later.keeps_no_slot());
}

TEST_CASE("an answer whose other half was never applied is taken back, once") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    const StripeRef ref = begun_here(1), another = begun_here(2);
    const Payload delta = bench.delta_of(format, ref);
    const double moved = bench.moved;
    REQUIRE(bench.perform<Applied>(apply(ref, format), delta)->verdict.done());
    REQUIRE(std::abs(bench.slow()[0] - bench.before[0]) > 0.2F * Bench::kApart);
    const auto is_back = [&bench] {
      const std::vector<float> now = bench.slow();
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (std::abs(now[i] - bench.before[i]) > 1e-6F) return false;
      }
      return true;
    };
    for (const StripeRef& undone : {ref, ref, another}) {
      CHECK(bench.perform<Compensated>(gossip::Compensate{undone}));
      CHECK(is_back());
      CHECK(bench.moved == doctest::Approx(moved).epsilon(1e-9));  // the trainer's as well
      bench.pass_rounds(1);
    }
    CHECK(bench.keeps_no_slot());
  }
}

TEST_CASE("a peer that was started again takes back what its former life had half done") {
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kMod8}) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    const StripeRef ref = begun_here(1), settled = begun_here(2);
    for (const StripeRef& each : {ref, settled}) {
      const Payload delta = bench.delta_of(format, each);
      REQUIRE(bench.perform<Applied>(apply(each, format), delta)->verdict.done());
      bench.pass_rounds(1);
    }
    for (const StripeRef& done : {settled, begun_here(Bench::kFirst)}) {
      bench.perform<Compensated>(gossip::ForgetDelta{done});
    }
    const std::unique_ptr<CheckpointImage> image = bench.image();
    REQUIRE(image->unsettled.size() == 1);
    const std::vector<float> both = bench.slow();
    Bench later;
    later.mixer.restore(*image);
    REQUIRE(later.slow() == both);
    CHECK(later.perform<Compensated>(gossip::Compensate{settled}));
    CHECK(later.slow() == both);
    CHECK(later.perform<Compensated>(gossip::Compensate{ref}));
    // One half of a difference is there still, that of the exchange that both have settled.
    const float left = later.slow()[0] - bench.before[0];
    CHECK(left > 0.05F * Bench::kApart);
    CHECK(left < 0.75F * Bench::kApart);
    CHECK(later.slow()[0] < both[0]);
    CHECK(later.image()->unsettled.empty());
  }
}

TEST_CASE("weights that were fetched begin without the scales of those before them") {
  Bench bench;
  const std::unique_ptr<CheckpointImage> image = bench.image();
  const auto radius = [&] {  // of the fragment whose first stripe was exchanged
    bench.mixer.restore(*image);
    float found = -1;
    do {
      while (auto parcel = bench.rings.mixer_to_network.try_pop()) {
        const auto* news = std::get_if<FragmentPublished>(&*parcel);
        if (news != nullptr && news->fragment == FragmentId{0}) found = news->state.clip_radius;
      }
    } while (bench.mixer.pump());
    return found;
  };
  CHECK(radius() > 0);
  image->scales.clear();
  CHECK(radius() == 0);
}

TEST_CASE("an answer that many outer steps have overtaken, or that nobody asked for, is too old") {
  Bench bench;
  const StripeRef ref = begun_here(1);
  const Payload delta = bench.delta_of(WireFormat::kMod8, ref);
  bench.pass_rounds(kRoundsLateMax + 1);
  for (const StripeRef& late : {ref, begun_here(7)}) {
    const auto applied = bench.perform<Applied>(apply(late, WireFormat::kMod8), delta);
    CHECK(applied->verdict.reason == RejectReason::kTooOld);
    CHECK(bench.slow() == bench.before);
    CHECK(bench.keeps_no_slot());
  }
  const Payload fresh = bench.delta_of(WireFormat::kMod8, ref);
  bench.pass_rounds(kRoundsLateMax);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kMod8), fresh)->verdict.done());
}

TEST_CASE("a block whose difference wrapped around stays, the others move, and it is counted") {
  for (const WireFormat format :
       {WireFormat::kMod8, WireFormat::kMod6, WireFormat::kMod5, WireFormat::kMod4}) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    REQUIRE(optim::block_count(bench.count()) > 1);
    std::vector<float> theirs = bench.theirs();
    std::fill_n(theirs.begin(), optim::kBlockParameters, 5.0F);  // thousands of steps away
    const StripeRef ref = begun_there(1);
    const Payload push = bench.push_of(format, ref, theirs);
    REQUIRE(bench.perform<Staged>(stage(ref, format), push)->verdict.done());
    REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());
    CHECK(bench.mixer.slow()[0] == bench.before[0]);
    CHECK(bench.mixer.slow()[optim::kBlockParameters] > bench.before[optim::kBlockParameters]);
    CHECK(bench.metrics.blocks_skipped.value() == 1);
  }
}

TEST_CASE("orders of a stripe that there is not change nothing") {
  Bench bench;
  StripeRef ref = begun_there(1);
  const Payload push = bench.push_of(WireFormat::kF32, ref, bench.theirs());
  ref.stripe = 1000;
  CHECK(bench.perform<Staged>(stage(ref, WireFormat::kF32), push)->verdict.reason ==
        RejectReason::kWrongName);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kF32), push)->verdict.reason ==
        RejectReason::kWrongName);
  CHECK(bench.slow() == bench.before);
  CHECK(bench.keeps_no_slot());
}

}  // namespace starling::peer

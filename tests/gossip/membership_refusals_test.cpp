// Who may not take part, and who hears of it.
#include <doctest/doctest.h>

#include <optional>
#include <utility>

#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {

using std::chrono::minutes;

TEST_CASE("a peer of another run is refused with the reason on both sides, for ten minutes") {
  struct Kind {
    RefuseReason reason;
    std::uint64_t RunIdentity::*field;
  };
  for (const Kind& kind : {Kind{RefuseReason::kRun, &RunIdentity::run},
                           Kind{RefuseReason::kModel, &RunIdentity::model},
                           Kind{RefuseReason::kLayout, &RunIdentity::layout}}) {
    CAPTURE(to_string(kind.reason));
    CoreBench bench;
    bench.start(1);
    const std::uint64_t theirs = std::exchange(bench.run_identity.*kind.field, 99);
    bench.start(2);
    bench.join(2, 1);
    REQUIRE(bench.node(1).refused.size() == 1);
    CHECK(bench.node(1).refused[0].by_us);
    CHECK(bench.node(1).refused[0].reason == kind.reason);
    CHECK(bench.node(1).refused[0].theirs.*kind.field == 99);
    REQUIRE(bench.node(2).refused.size() == 1);
    CHECK_FALSE(bench.node(2).refused[0].by_us);
    CHECK(bench.node(2).refused[0].reason == kind.reason);
    CHECK(bench.node(2).refused[0].theirs.*kind.field == theirs);
    CHECK(bench.node(2).refused[0].address == CoreBench::address_of(PeerId{1}));
    bench.run(Membership::kRefusedFor - minutes(1));
    CHECK(bench.node(2).greetings.size() == 1);
    bench.run(minutes(2));
    CHECK(bench.node(2).greetings.size() > 1);
    CHECK(bench.core(1).peers().empty());
    CHECK(bench.core(2).peers().empty());
  }
}

TEST_CASE("who is refused for another reason than before is told of at once, for the same not") {
  CoreBench bench;
  bench.start(1);
  bench.start(2);
  Hello hello{signed_record(bench, 2), bench.run_identity};
  hello.identity.model = 99;
  for (int i = 0; i < 3; ++i) bench.deliver({PeerId{2}, PeerId{1}, hello});
  hello.identity = bench.run_identity;
  hello.identity.run = 99;
  for (int i = 0; i < 3; ++i) bench.deliver({PeerId{2}, PeerId{1}, hello});
  const auto& refused = bench.node(1).refused;
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].reason == RefuseReason::kModel);
  CHECK(refused[1].reason == RefuseReason::kRun);
}

TEST_CASE("a refusal goes back to whoever knocked, not to the address that it names") {
  CoreBench bench;
  bench.start(1);
  bench.start(2);
  Hello hello{signed_record(bench, 2), bench.run_identity};
  hello.identity.model = 99;
  hello.self.address.control_port = 7003;  // somebody else's
  std::optional<Refuse> refusal;
  bench.passes = [&refusal](const CoreBench::Letter& letter) {
    const auto* refuse = std::get_if<Refuse>(&letter.message);
    if (refuse != nullptr && letter.to == PeerId{2}) refusal = *refuse;
    return true;
  };
  bench.deliver({PeerId{2}, PeerId{1}, hello});
  REQUIRE(refusal);
  CHECK(refusal->reason == RefuseReason::kModel);
  CHECK(bench.node(2).refused.empty());  // it had greeted nobody: anybody could say so
}

TEST_CASE("a peer that finds its own id behind a seed is told so") {
  CoreBench bench;
  bench.start(1);
  Hello hello{bench.node(1).identity.self, bench.run_identity};
  hello.self.address = CoreBench::address_of(PeerId{1});
  bench.deliver({PeerId{1}, PeerId{1}, hello});
  REQUIRE_FALSE(bench.node(1).refused.empty());
  CHECK(bench.node(1).refused[0].reason == RefuseReason::kSelf);
  CHECK(bench.core(1).peers().empty());
}

}  // namespace starling::gossip

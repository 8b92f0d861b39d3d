// Look-ups have threads of their own; the time is the test's.
#include "gossip/net/name_resolver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "base/host.h"
#include "tests/gossip/net/fake_names.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Addresses = std::vector<std::string>;

struct Bench {
  FakeNames names;
  NameResolver resolver{names.look_up()};
  Instant now{};

  Addresses ask(const std::string& name = "bert") {
    const auto found = resolver.addresses(now, name);
    return {found.begin(), found.end()};
  }
  // Asks, and again until nothing is under way.
  Addresses settle(const std::string& name = "bert") {
    REQUIRE(eventually([&] { return ask(name), resolver.at_work() == 0; }));
    return ask(name);
  }
};

std::string name_of(std::size_t number) { return "peer-" + std::to_string(number); }

}  // namespace

TEST_CASE("whoever asks for a name is answered at once, and with addresses when they are there") {
  Bench bench;
  bench.names.set("bert", {{"192.0.2.1", "2001:db8::1"}, {}});
  bench.names.silence("bert");
  const Instant start = steady_now();
  for (int i = 0; i < 100; ++i) CHECK(bench.ask().empty());
  CHECK(steady_now() - start < seconds(5));
  CHECK(bench.resolver.at_work() == 1);
  bench.names.speak();
  CHECK(bench.settle() == Addresses{"192.0.2.1", "2001:db8::1"});
  CHECK(bench.names.asked() == 1);
}

TEST_CASE("silent names take a bounded number of threads, and the others their turn after them") {
  Bench bench;
  constexpr std::size_t kNames = 3 * NameResolver::kAtWorkMax;
  for (std::size_t i = 0; i < kNames; ++i) {
    bench.names.set(name_of(i), {{"192.0.2.1"}, {}});
    bench.names.silence(name_of(i));
  }
  for (int turn = 0; turn < 10; ++turn) {
    for (std::size_t i = 0; i < kNames; ++i) CHECK(bench.ask(name_of(i)).empty());
  }
  constexpr std::size_t kAtOnce = NameResolver::kAtWorkMax - NameResolver::kForReached;
  CHECK(bench.resolver.at_work() == kAtOnce);
  CHECK(eventually([&] { return bench.names.asked() == kAtOnce; }));
  bench.names.speak();
  CHECK(eventually([&] {
    std::size_t known = 0;
    for (std::size_t i = 0; i < kNames; ++i) known += bench.ask(name_of(i)).empty() ? 0 : 1;
    return known == kNames;
  }));
  CHECK(bench.names.asked() == kNames);
}

TEST_CASE("names without end that nobody answers for do not keep one from being looked up again") {
  Bench bench;
  bench.names.set("bert", {{"192.0.2.1"}, {}});
  REQUIRE(bench.settle() == Addresses{"192.0.2.1"});
  bench.resolver.note_reached(bench.now, "bert");
  for (std::size_t i = 0; i < 2 * NameResolver::kAtWorkMax; ++i) {
    bench.names.silence(name_of(i));
    CHECK(bench.ask(name_of(i)).empty());
  }
  bench.names.set("bert", {{"192.0.2.2"}, {}});
  bench.now += NameResolver::kPauseMin;
  CHECK(eventually([&] { return bench.ask() == Addresses{"192.0.2.2"}; }));
  bench.names.speak();
}

TEST_CASE("who ends waits for no look-up, and a look-up that ends later does no harm") {
  FakeNames names;
  names.silence("bert");
  const Instant start = steady_now();
  for (int i = 0; i < 10; ++i) {
    NameResolver resolver(names.look_up());
    CHECK(resolver.addresses(Instant{}, "bert").empty());
  }
  CHECK(steady_now() - start < seconds(5));
  CHECK(eventually([&] { return names.asked() == 10; }));
}

TEST_CASE("a name is looked up ever more rarely until a line is up, and then soon again") {
  Bench bench;
  bench.names.set("bert", {{"192.0.2.1"}, {}});
  std::vector<int> looked;  // at which seconds
  for (int tenth = 0; tenth <= 3000; ++tenth) {
    const std::size_t before = bench.names.asked();
    bench.settle();
    if (bench.names.asked() > before) looked.push_back(tenth / 10);
    bench.now += milliseconds(100);
  }
  CHECK(looked == std::vector<int>{0, 1, 3, 7, 15, 31, 63, 123, 183, 243});
  bench.resolver.note_reached(bench.now, "bert");
  bench.now += NameResolver::kPauseMin;
  bench.settle();
  CHECK(bench.names.asked() == looked.size() + 1);
}

TEST_CASE("a failure is told once for each reason, and the last addresses stay in use") {
  Bench bench;
  const auto told_after = [&](const NameAnswer& answer) {
    bench.names.set("bert", answer);
    for (int i = 0; i < 3; ++i) {
      bench.settle();
      bench.now += NameResolver::kPauseMax;
    }
    return bench.resolver.problems_told();
  };
  CHECK(told_after({{}, "no such name"}) == 1);
  CHECK(bench.ask().empty());
  CHECK(told_after({{}, "no answer"}) == 2);
  CHECK(told_after({{"192.0.2.1"}, {}}) == 2);
  CHECK(told_after({{}, "no answer"}) == 3);
  CHECK(bench.ask() == Addresses{"192.0.2.1"});
  CHECK(told_after({{}, {}}) == 4);  // neither an address nor a reason
  CHECK(bench.ask() == Addresses{"192.0.2.1"});
}

TEST_CASE("what is no address is not given, whoever says so") {
  Bench bench;
  bench.names.set("bert", {{"192.0.2.1;x", "", "cleo", "192.0.2.1"}, {}});
  CHECK(bench.settle() == Addresses{"192.0.2.1"});
  bench.names.set("cleo", {{"dora"}, {}});
  CHECK(bench.settle("cleo").empty());
  CHECK(bench.resolver.problems_told() == 1);
}

TEST_CASE("a look-up that throws has failed, and no more") {
  NameResolver resolver([](const std::string&) -> NameAnswer { throw std::bad_alloc(); });
  REQUIRE(eventually([&] {
    static_cast<void>(resolver.addresses(Instant{}, "bert"));
    return resolver.at_work() == 0;
  }));
  CHECK(resolver.problems_told() == 1);
}

TEST_CASE("what was given up stays behind, until the name has other addresses") {
  Bench bench;
  const auto look_again = [&](const Addresses& addresses) {
    bench.names.set("bert", {addresses, {}});
    bench.now += NameResolver::kPauseMax;
    return bench.settle();
  };
  CHECK(look_again({"192.0.2.1", "192.0.2.2"}) == Addresses{"192.0.2.1", "192.0.2.2"});
  bench.resolver.give_up("bert", "192.0.2.1");
  bench.resolver.give_up("bert", "192.0.2.7");  // not of it
  bench.resolver.give_up("cleo", "192.0.2.1");
  CHECK(bench.ask() == Addresses{"192.0.2.2", "192.0.2.1"});
  CHECK(look_again({"192.0.2.1", "192.0.2.2"}) == Addresses{"192.0.2.2", "192.0.2.1"});
  CHECK(look_again({"192.0.2.1", "192.0.2.3"}) == Addresses{"192.0.2.1", "192.0.2.3"});
}

TEST_CASE("of very many addresses and names some are kept") {
  Bench bench;
  bench.names.set("bert", {Addresses(1000, "2001:db8:1111:2222:3333:4444:5555:6666"), {}});
  CHECK(bench.settle().size() == NameResolver::kAddressesMax);
  for (std::size_t i = 0; i < NameResolver::kNamesMax + 100; ++i) {
    bench.now += milliseconds(1);
    bench.ask(name_of(i));
  }
  CHECK(bench.resolver.known() == NameResolver::kNamesMax);
}

TEST_CASE("without descriptors a look-up fails and is made later") {
  Bench bench;
  bench.names.set("bert", {{"192.0.2.1"}, {}});
  {
    const NoDescriptors now;
    CHECK(bench.ask().empty());
    CHECK(bench.resolver.problems_told() == 1);
  }
  bench.now += NameResolver::kPauseMax;
  CHECK(bench.settle() == Addresses{"192.0.2.1"});
}

TEST_CASE("the system knows this machine, by IPv4 first, and says why it does not know a name") {
  const NameAnswer answer = look_up_name("localhost");
  REQUIRE(!answer.addresses.empty());
  CHECK(answer.addresses.front() == "127.0.0.1");
  for (const std::string& address : answer.addresses) CHECK(is_ip_literal(address));
  // Longer than any name: nobody is asked.
  const NameAnswer none = look_up_name(std::string(2000, 'x'));
  CHECK(none.addresses.empty());
  CHECK(!none.problem.empty());
}

}  // namespace starling::gossip

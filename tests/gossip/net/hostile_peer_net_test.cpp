// net_hostile_peer, which chaos tests let loose on real peers, does what it is there for.
#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "tests/gossip/net/driver_peer.h"

extern char** environ;

namespace starling::gossip {
namespace {

// A process of ours; ended with this.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed =
        ::posix_spawn(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ);
    STARLING_ASSERT(failed == 0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("the hostile peer of chaos tests comes in as a member, is muted, and does no harm") {
  DriverPeer peer({.id = 1, .value = 1000});
  DriverPeer friendly({.id = 2, .value = 0});
  join(friendly, peer.address());
  REQUIRE(run_until({&peer, &friendly}, [&] { return sees(peer, 1) && sees(friendly, 1); }));
  const std::int64_t sum = peer.mixer.sum() + friendly.mixer.sum();
  const PeerAddress at = peer.address();
  const Child hostile({STARLING_HOSTILE_PEER, "1", "30",
                       to_string(at.key) + "@127.0.0.1:" + std::to_string(at.control_port)});
  const auto exchange = [&](DriverPeer& by) {
    if (by.driver().core().exchanges_open() == 0) by.driver().publish(FragmentId{0}, {});
  };
  const auto muted = [&] {
    exchange(peer);
    exchange(friendly);
    return std::any_of(peer.events.muted.begin(), peer.events.muted.end(),
                       [](const Muted& event) { return event.by_us; });
  };
  REQUIRE(run_until({&peer, &friendly}, muted, 25));
  for (const Muted& event : peer.events.muted) CHECK(event.peer != test_identity(2).id());
  CHECK(peer.events.refused.size() >= 1);  // it learned the run by being turned down
  REQUIRE(run_until({&peer, &friendly}, [&] { return sees(friendly, 1); }));
  // Those two still exchange, and nothing came in beside what they had.
  const std::uint64_t before = friendly.driver().core().stats().exchanges_completed;
  REQUIRE(run_until({&peer, &friendly}, [&] {
    exchange(friendly);
    return friendly.driver().core().stats().exchanges_completed >= before + 5;
  }));
  REQUIRE(run_until({&peer, &friendly}, [&] {
    return peer.driver().core().exchanges_open() == 0 &&
           peer.driver().core().stripes_unsettled() == 0 &&
           friendly.driver().core().exchanges_open() == 0 && peer.mixer.slots_home() &&
           friendly.mixer.slots_home();
  }));
  CHECK(peer.mixer.sum() + friendly.mixer.sum() == sum);
}

}  // namespace starling::gossip

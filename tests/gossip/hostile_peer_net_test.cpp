// net_hostile_peer, which chaos tests let loose on real peers, does what it is there for.
#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "tests/gossip/driver_peer.h"

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
  DriverPeer peer({.id = 1});
  DriverPeer friendly({.id = 2});
  join(friendly, peer.address());
  REQUIRE(run_until({&peer, &friendly}, [&] { return sees(peer, 1) && sees(friendly, 1); }));
  const PeerAddress at = peer.address();
  const Child hostile({STARLING_HOSTILE_PEER, "1", "30",
                       to_string(at.key) + "@127.0.0.1:" + std::to_string(at.control_port)});
  const auto muted = [&] {
    return std::any_of(peer.events.muted.begin(), peer.events.muted.end(),
                       [](const Muted& event) { return event.by_us; });
  };
  REQUIRE(run_until({&peer, &friendly}, muted, 25));
  for (const Muted& event : peer.events.muted) CHECK(event.peer != test_identity(2).id());
  CHECK(peer.events.refused.size() >= 1);  // it learned the run by being turned down
  REQUIRE(run_until({&peer, &friendly}, [&] { return sees(friendly, 1); }));
}

}  // namespace starling::gossip

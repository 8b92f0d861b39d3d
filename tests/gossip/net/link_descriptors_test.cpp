// A process at its limit of open files. Callers wait in the backlog of a listener that cannot let
// them in; ZeroMQ's threads, which are told that they wait, must not try again without end.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/gossip/net/link_host.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

bool gets_through(Host& host, Host& guest, PeerId guest_id) {
  const int before = host.heard[guest_id];
  return serve_until({&host, &guest}, [&] {
    static_cast<void>(guest.link.try_send_control(kBert, ping(1)));
    return host.heard[guest_id] > before;
  });
}

// How long the threads that there are now, but for this one, have run or waited for a processor. Of
// one that spins it grows as fast as time goes by, however busy the machine is.
class ThreadsBeside {
 public:
  ThreadsBeside() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == std::to_string(::gettid())) continue;
      files_.push_back(::open((task.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC));
    }
  }
  ~ThreadsBeside() {
    for (const int file : files_) ::close(file);
  }
  ThreadsBeside(const ThreadsBeside&) = delete;
  ThreadsBeside& operator=(const ThreadsBeside&) = delete;

  // How many of them are awake on average while `hosts` are served.
  double awake_beside(std::initializer_list<Host*> hosts) const {
    const double before = seconds_awake();
    const Instant begun = steady_now();
    static_cast<void>(serve_until(
        hosts, [] { return false; }, 0.3));
    return (seconds_awake() - before) / to_seconds(steady_now() - begun);
  }

 private:
  double seconds_awake() const {
    double nanoseconds = 0;
    for (const int file : files_) {
      std::array<char, 128> text{};
      double ran = 0, waited = 0;
      STARLING_ASSERT(::pread(file, text.data(), text.size() - 1, 0) > 0);
      STARLING_ASSERT(std::sscanf(text.data(), "%lf %lf", &ran, &waited) == 2);
      nanoseconds += ran + waited;
    }
    return 1e-9 * nanoseconds;
  }

  std::vector<int> files_;
};

// A descriptor that was had in time, to call with later.
class LateCaller {
 public:
  LateCaller() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) { STARLING_ASSERT(socket_ >= 0); }
  ~LateCaller() { ::close(socket_); }
  LateCaller(const LateCaller&) = delete;
  LateCaller& operator=(const LateCaller&) = delete;

  bool call(std::uint16_t port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

 private:
  int socket_;
};

}  // namespace

TEST_CASE(
    "who has no descriptor left hears its partners, does not spin, and lets in others later") {
  constexpr std::uint64_t kCallers = 20;
  Host bert(kBertKey), anna(kAnnaKey);
  REQUIRE(connect(anna.link, bert.link.local_address()));
  REQUIRE(gets_through(bert, anna, kAnna));
  const std::uint64_t before = bert.callers().open;
  const std::deque<LateCaller> callers(kCallers);
  const ThreadsBeside threads;
  const double calm = threads.awake_beside({&bert, &anna});
  {
    const NoDescriptors none;
    const PeerAddress& address = bert.link.local_address();
    for (std::size_t i = 0; i < kCallers; ++i) {
      static_cast<void>(callers[i].call(i % 2 == 0 ? address.control_port : address.bulk_port));
    }
    double awake = 0;
    CHECK(eventually([&] {
      awake = threads.awake_beside({&bert, &anna});
      return awake < calm + 0.5;
    }));
    MESSAGE("threads awake beside the test's own: " << calm << " before, " << awake << " now");
    CHECK(serve_until({&bert, &anna}, [&] { return bert.callers().open == before; }));
    CHECK(gets_through(bert, anna, kAnna));
  }
  Host cleo(kCleoKey);
  REQUIRE(connect(cleo.link, bert.link.local_address()));
  CHECK(gets_through(bert, cleo, kCleoKey.id()));
  CHECK(gets_through(bert, anna, kAnna));
}

}  // namespace starling::gossip

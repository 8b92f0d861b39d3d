#include "gossip/net/link_congestion.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace starling::gossip {
namespace {

struct Socket {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  Socket() { REQUIRE(descriptor >= 0); }
  ~Socket() { ::close(descriptor); }
  bool set(const std::string& control) const {
    return ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, control.data(),
                        static_cast<socklen_t>(control.size())) == 0;
  }
  std::string control() const {
    std::array<char, 32> name{};
    socklen_t size = name.size();
    REQUIRE(::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0);
    return name.data();
  }
};

}  // namespace

TEST_CASE("a connection that losses slow down gets another control, where it may") {
  const auto here = congestion_control();
  REQUIRE(here.has_value());
  REQUIRE(here->usual == Socket{}.control());  // or it would only count as skipped
  const Socket socket;
  if (!socket.set("reno")) {
    MESSAGE("skipped: this system lets no program choose reno");
    return;
  }
  const bool may = Socket{}.set("bbr");
  const Endurance expected = may ? Endurance::kGiven : Endurance::kNone;
  CHECK(endure_losses(socket.descriptor) == expected);
  CHECK(socket.control() == (may ? "bbr" : "reno"));
  const bool slows_down = here->usual == "reno" || here->usual == "cubic";
  CHECK(here->endurance == (slows_down ? expected : Endurance::kOwn));
  if (may) CHECK(endure_losses(socket.descriptor) == Endurance::kOwn);
}

TEST_CASE("what is no connection endures nothing") { CHECK(endure_losses(-1) == Endurance::kNone); }

}  // namespace starling::gossip

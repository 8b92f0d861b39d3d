// What those whom we have called can do: real sockets, hostile hands.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "gossip/net/link_callers.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/curve_answerer.h"
#include "tests/gossip/net/link_host.h"

namespace starling::gossip {
namespace {

const Identity kBertKey = test_identity(22);
const Identity kMaraKey = test_identity(55);

PeerAddress address_of(const CurveAnswerer& control, const CurveAnswerer& bulk) {
  PeerAddress address;
  address.key = kMaraKey.key();
  STARLING_ASSERT(set_host(address, "127.0.0.1"));
  address.control_port = control.port();
  address.bulk_port = bulk.port();
  return address;
}

// Sends parts of a message that never ends until the connection is ended; MiB.
double pour(Host& host, CurveAnswerer& mara, double mib_max) {
  const std::string part(1 << 14, 'x');
  double sent = 0;
  while (!mara.ended() && sent < mib_max) {
    for (const Instant next = steady_now() + std::chrono::milliseconds(5); steady_now() < next;) {
      if (mara.send(part, true)) sent += static_cast<double>(part.size()) / (1 << 20);
      host.serve();
    }
  }
  return sent;
}

}  // namespace

TEST_CASE("whoever we called sends a message that never ends: the line goes, and another comes") {
  Host bert(kBertKey);
  CurveAnswerer mara(kMaraKey), mara_bulk(kMaraKey);
  REQUIRE(connect(bert.link, address_of(mara, mara_bulk)));
  REQUIRE(serve_until({&bert}, [&] { return mara.step(); }));
  SUBCASE("over the connection that was made first") {}
  SUBCASE("over one that ZeroMQ has made by itself") {
    const auto known = serve_until({&bert}, [&] { return mara.step(); });
    REQUIRE(known);
    mara.hang_up();
    REQUIRE(serve_until({&bert}, [&] { return mara.step(); }));
  }
  const double before = resident_mib();
  constexpr double kMost = 1500;  // MiB: it would hold them all
  const double sent = pour(bert, mara, kMost);
  const double grown = resident_mib() - before;
  MESSAGE("sent " << sent << " MiB, grew by " << grown << " MiB");
  CHECK(sent < kMost);
  CHECK(grown < kMost / 2);  // under a sanitizer, which keeps what is freed
  // The next look at the line's place finds it gone; whoever has to say something dials anew.
  const std::size_t answered = mara.answered();
  mara.hang_up();
  CHECK(serve_until({&bert}, [&] {
    static_cast<void>(bert.link.try_send_control(kMaraKey.id(), ping(1)));
    return mara.step() && mara.answered() > answered;
  }));
}

TEST_CASE("whoever we greet and who talks without introducing himself loses the line") {
  Host bert(kBertKey);
  CurveAnswerer mara(kMaraKey), mara_bulk(kMaraKey);
  REQUIRE(bert.link.greet(address_of(mara, mara_bulk), Hello{}));
  REQUIRE(serve_until({&bert}, [&] { return mara.step(); }));
  const std::string frame = text_of(encode(kMaraKey.id(), ping(1)));
  std::size_t said = 0;
  CHECK(serve_until(
      {&bert},
      [&] {
        if (mara.send(frame, false)) said += frame.size();
        return mara.ended();
      },
      30));
  CHECK(said > Callers::kStrangerMessagesMax);
  CHECK(bert.callers().floods == 1);
}

}  // namespace starling::gossip

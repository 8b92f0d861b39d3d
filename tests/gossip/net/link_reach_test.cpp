#include "gossip/net/link_reach.h"

#include <doctest/doctest.h>

namespace starling::gossip {

TEST_CASE("others reach a peer from as far away as they come in on both lanes") {
  constexpr LinkLane kControl = LinkLane::kControl, kBulk = LinkLane::kBulk;
  CallersReach reach;
  Instant now{};
  CHECK(reach.farthest(now) == Reach::kUnspecified);
  reach.note(now, kControl, "9.9.9.9");
  CHECK(reach.farthest(now) == Reach::kUnspecified);
  reach.note(now, kBulk, "127.0.0.1");
  CHECK(reach.farthest(now) == Reach::kThisMachine);
  reach.note(now, kBulk, "::ffff:192.168.1.7");
  CHECK(reach.farthest(now) == Reach::kThisNetwork);
  reach.note(now, kBulk, "no literal");
  CHECK(reach.farthest(now) == Reach::kThisNetwork);
  now += CallersReach::kKept / 2;
  reach.note(now, kBulk, "2001:db8::1");
  CHECK(reach.farthest(now) == Reach::kAnywhere);
  reach.note(now, kControl, "10.0.0.1");
  CHECK(reach.farthest(now) == Reach::kAnywhere);
  now += CallersReach::kKept / 2;  // 9.9.9.9 has not been seen for so long
  CHECK(reach.farthest(now) == Reach::kThisNetwork);
  reach.note_line(now, "192.168.1.9");
  CHECK(reach.beside_lines(now) == Reach::kThisNetwork);
  reach.note_line(now, "9.9.9.9");
  CHECK(reach.beside_lines(now) == Reach::kUnspecified);
  CHECK(reach.farthest(now) == Reach::kThisNetwork);
  now += CallersReach::kKept / 2;
  CHECK(reach.farthest(now) == Reach::kUnspecified);
}

}  // namespace starling::gossip

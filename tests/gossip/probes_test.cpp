#include "gossip/probes.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

using std::chrono::seconds;
constexpr Instant kStart{};

Probe probe_of(std::uint64_t target) {
  return {.target = PeerId{target},
          .nonce = target * 10,
          .sent_at = kStart,
          .ask_others_at = kStart + seconds(1),
          .ends_at = kStart + seconds(3)};
}

BoundedList<PeerId, kHelpersMax> helpers() {
  BoundedList<PeerId, kHelpersMax> list;
  for (std::uint64_t id = 5; id < 8; ++id) REQUIRE(list.try_push(PeerId{id}));
  return list;
}

}  // namespace

TEST_CASE("a silent target is asked through others once and then it is over") {
  Probes probes;
  REQUIRE(probes.begin(probe_of(1)));
  CHECK_FALSE(probes.begin(probe_of(1)));
  CHECK(probes.next_deadline() == kStart + seconds(1));
  CHECK(probes.due_for_help(kStart).empty());
  REQUIRE(probes.due_for_help(kStart + seconds(1)).size() == 1);
  CHECK(probes.due_for_help(kStart + seconds(2)).empty());
  CHECK_FALSE(probes.note_helper(PeerId{1}, 10, PeerId{5}));  // not asked yet
  probes.note_asked(PeerId{1}, helpers());
  CHECK(probes.note_helper(PeerId{1}, 10, PeerId{5}));
  CHECK_FALSE(probes.note_helper(PeerId{1}, 10, PeerId{5}));  // again
  CHECK_FALSE(probes.note_helper(PeerId{1}, 99, PeerId{6}));  // of another probe
  CHECK_FALSE(probes.note_helper(PeerId{1}, 10, PeerId{9}));  // not asked at all
  CHECK_FALSE(probes.note_helper(PeerId{2}, 10, PeerId{6}));  // about another target
  const auto over = probes.due_for_end(kStart + seconds(3));
  REQUIRE(over.size() == 1);
  CHECK(over[0].asked == 3);
  CHECK(over[0].heard == 1);
  CHECK_FALSE(probes.open(PeerId{1}));
  CHECK_FALSE(probes.next_deadline());
}

TEST_CASE("an answer ends a probe and whoever was not asked is not counted as silent") {
  Probes probes;
  REQUIRE(probes.begin(probe_of(1)));
  CHECK_FALSE(probes.note_helper(PeerId{1}, 10, PeerId{5}));
  const auto answered = probes.answered(PeerId{1});
  REQUIRE(answered);
  CHECK(answered->heard == 0);
  CHECK_FALSE(probes.answered(PeerId{1}));
  CHECK(probes.due_for_end(kStart + seconds(9)).empty());
}

TEST_CASE("questions of others are answered once, with what was heard or with nothing") {
  Probes probes;
  REQUIRE(probes.owe({PeerId{5}, 1, PeerId{7}}, kStart + seconds(1)));
  REQUIRE(probes.owe({PeerId{6}, 2, PeerId{7}}, kStart + seconds(1)));
  REQUIRE(probes.owe({PeerId{6}, 3, PeerId{8}}, kStart + seconds(1)));
  CHECK_FALSE(probes.owe({PeerId{6}, 4, PeerId{8}}, kStart + seconds(1)));
  CHECK(probes.duties_done(PeerId{7}).size() == 2);
  CHECK(probes.duties_done(PeerId{7}).empty());
  const auto due = probes.duties_due(kStart + seconds(1));
  REQUIRE(due.size() == 1);
  CHECK(due[0].nonce == 3);
}

TEST_CASE("probes and duties are bounded") {
  Probes probes;
  for (std::uint64_t id = 1; id <= Probes::kOpenMax; ++id) REQUIRE(probes.begin(probe_of(id)));
  CHECK_FALSE(probes.begin(probe_of(1000)));
  for (std::uint64_t id = 1; id <= Probes::kDutiesMax; ++id) {
    REQUIRE(probes.owe({PeerId{id}, id, PeerId{7}}, kStart));
  }
  CHECK_FALSE(probes.owe({PeerId{1000}, 1, PeerId{7}}, kStart));
}

TEST_CASE("time in which this process did not run is nobody's silence") {
  Probes probes;
  REQUIRE(probes.begin(probe_of(1)));
  probes.shift(seconds(60));
  CHECK(probes.due_for_end(kStart + seconds(62)).empty());
  CHECK(probes.due_for_end(kStart + seconds(63)).size() == 1);
}

}  // namespace starling::gossip

#include "peer/roles/swarm_health.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "gossip/core.h"

namespace starling::peer {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// One peer's second by second, with an exchange of each fragment now and then.
struct Watch {
  explicit Watch(const HealthLimits& limits = {}) : health(limits) {}

  void run(Duration span, Duration exchange_every) {
    for (const Instant end = now + span; now < end; now += seconds(1)) {
      if (exchange_every > Duration::zero() && now - last >= exchange_every) {
        health.on_completed(now, FragmentId{0});
        last = now;
      }
      sight.bytes_out += bytes_per_second;
      health.look(now, sight);
    }
  }
  std::string kinds() const {
    std::string text;
    for (const Alarm& alarm : health.alarms()) text += alarm.kind + " ";
    return text;
  }

  SwarmHealth health;
  SwarmHealth::Sight sight;
  std::uint64_t bytes_per_second = 0;
  Instant now{minutes(60)}, last{};
};

}  // namespace

TEST_CASE("the swarm's loss is the mean of those that are known") {
  Watch watch;
  watch.run(seconds(1), {});
  CHECK(watch.health.loss() == 0);
  watch.sight.own_loss = 2;
  watch.sight.partners = 2;
  watch.sight.losses = {{3, seconds(5)}, {4, minutes(9)}};
  watch.run(seconds(1), {});
  CHECK(watch.health.loss() == doctest::Approx(3));
  watch.sight.losses.back().age = minutes(10);
  watch.run(seconds(1), {});
  CHECK(watch.health.loss() == doctest::Approx(2.5));
}

TEST_CASE("a partner that has not told its loss for several of its usual intervals is left out") {
  Watch watch;
  watch.sight.own_loss = 1;
  watch.sight.partners = 2;
  watch.sight.losses = {{1, seconds(5)}, {4, minutes(3)}};
  watch.run(minutes(10), seconds(30));  // each of the two once a minute
  CHECK(watch.health.loss() == doctest::Approx(2));
  watch.sight.losses.back().age = minutes(5);
  watch.run(seconds(1), {});
  CHECK(watch.health.loss() == doctest::Approx(1));
  Watch quick;  // where all meet all the time, half a minute is nothing
  quick.sight = watch.sight;
  quick.sight.losses.back().age = seconds(29);
  quick.run(minutes(1), seconds(1));
  CHECK(quick.health.loss() == doctest::Approx(2));
}

TEST_CASE("only the living count, and of their losses only those of partners") {
  const Instant now{minutes(60)};
  gossip::PeerView view;
  view.record.health = gossip::Health::kAlive;
  view.partner = true;
  view.standing = gossip::make_standing(2, "cpu");
  view.standing_at = now - seconds(7);
  SwarmHealth::Sight sight;
  sight.add(now, view);
  REQUIRE(sight.losses.size() == 1);
  CHECK(sight.losses[0].loss == 2);
  CHECK(sight.losses[0].age == seconds(7));
  gossip::PeerView stranger = view;  // or one that we refuse
  stranger.partner = false;
  sight.add(now, stranger);
  for (const auto health :
       {gossip::Health::kSuspect, gossip::Health::kDead, gossip::Health::kLeft}) {
    gossip::PeerView gone = view;
    gone.record.health = health;
    sight.add(now, gone);
  }
  CHECK(sight.losses.size() == 1);
  CHECK(sight.partners == 1);
  view.standing_at.reset();
  sight.add(now, view);
  CHECK(sight.losses.size() == 1);
  CHECK(sight.partners == 2);
}

TEST_CASE("a trainer that stands still alarms with how long and what is usual") {
  Watch watch;
  watch.sight.trains = true;
  for (int pass = 0; pass < 60; ++pass) {
    ++watch.sight.passes;
    watch.run(seconds(2), {});
  }
  CHECK(watch.kinds().empty());
  watch.run(minutes(11), {});
  REQUIRE(watch.kinds() == "stalled ");
  CHECK(watch.health.alarms()[0].text.find("for 11 min, and one usually takes 2 s") !=
        std::string::npos);
  watch.sight.trains = false;  // it is told to end, say
  watch.run(seconds(1), {});
  CHECK(watch.kinds() == "stalled ");
  ++watch.sight.passes;
  watch.run(minutes(20), {});
  CHECK(watch.kinds().empty());
}

TEST_CASE("a loss that has risen and stays there alarms with both figures") {
  Watch watch;
  const auto steps = [&watch](int count, double loss) {
    for (int step = 0; step < count; ++step) watch.health.on_step(loss);
    watch.run(seconds(1), {});
  };
  steps(1000, 2.0);
  CHECK(watch.kinds().empty());
  steps(1000, 3.0);
  REQUIRE(watch.kinds() == "risen ");
  CHECK(watch.health.alarms()[0].text.find("from 2.000 to 3.000") != std::string::npos);
  steps(128, 2.1);
  CHECK(watch.kinds().empty());
}

TEST_CASE("drift is counted in outer steps and alarms after ten exchanges that did not help") {
  Watch watch;
  watch.sight.outer_gain = 2;
  watch.sight.displacement = 0.01;  // an outer step: 0.02
  watch.sight.disagreement = 0.04;
  watch.run(minutes(5), seconds(5));
  CHECK(watch.health.drift() == doctest::Approx(2));
  CHECK(watch.kinds().empty());
  watch.sight.disagreement = 0.2;
  watch.run(seconds(40), seconds(5));  // a newcomer's first eight
  CHECK(watch.health.drift() == doctest::Approx(10));
  CHECK(watch.kinds().empty());
  watch.run(seconds(20), seconds(5));
  CHECK(watch.kinds() == "drifting ");
  CHECK(watch.health.alarms()[0].text.find("10 outer steps") != std::string::npos);
  watch.sight.disagreement = 0.04;
  watch.run(seconds(1), {});
  CHECK(watch.kinds().empty());
  watch.sight.disagreement = 0.2;  // it counts anew
  watch.run(seconds(30), seconds(5));
  CHECK(watch.kinds().empty());
}

TEST_CASE("weights that do not move or are no numbers are no drift") {
  Watch watch;
  watch.sight.disagreement = 1;
  watch.run(minutes(5), seconds(5));
  CHECK(watch.health.drift() == 0);
  watch.sight.displacement = std::numeric_limits<double>::quiet_NaN();
  watch.run(seconds(1), {});
  CHECK(watch.health.drift() == 0);
  CHECK(watch.kinds().empty());
}

TEST_CASE("a fragment that is no longer averaged alarms after ten of its intervals") {
  Watch watch;
  watch.sight.exchanges_owed = true;
  CHECK(!watch.health.age(watch.now, FragmentId{0}));
  watch.run(minutes(20), minutes(1));
  watch.run(minutes(9), {});
  CHECK(watch.kinds().empty());
  CHECK(*watch.health.age(watch.now, FragmentId{0}) >= minutes(9));
  CHECK(!watch.health.age(watch.now, FragmentId{1}));
  watch.run(minutes(2), {});
  CHECK(watch.kinds() == "late ");
  watch.sight.exchanges_owed = false;  // quiet hours
  watch.run(minutes(30), {});
  CHECK(watch.kinds().empty());
  watch.sight.exchanges_owed = true;  // it has ten intervals from here
  watch.run(minutes(9), {});
  CHECK(watch.kinds().empty());
  watch.run(minutes(2), {});
  CHECK(watch.kinds() == "late ");
}

TEST_CASE("quick rounds are late after minutes, not after seconds") {
  Watch watch;
  watch.sight.exchanges_owed = true;
  watch.run(minutes(1), seconds(1));
  watch.run(minutes(4), {});
  CHECK(watch.kinds().empty());
  watch.run(minutes(2), {});
  CHECK(watch.kinds() == "late ");
}

TEST_CASE("a link near what is allowed is named with its setting") {
  Watch watch({.upload = 1e6});
  watch.bytes_per_second = 800'000;
  watch.run(minutes(1), {});
  CHECK(watch.kinds().empty());
  watch.bytes_per_second = 990'000;
  watch.run(minutes(1), {});
  REQUIRE(watch.kinds() == "link ");
  CHECK(watch.health.link_is_full());
  CHECK(watch.health.alarms()[0].text.find("bandwidth.upload_mbit") != std::string::npos);
  watch.bytes_per_second = 100'000;
  watch.run(seconds(11), {});
  CHECK(watch.kinds().empty());
}

TEST_CASE("without a limit no rate is one") {
  Watch watch;
  watch.bytes_per_second = 2'000'000'000;
  watch.run(minutes(1), {});
  CHECK(watch.kinds().empty());
}

}  // namespace starling::peer

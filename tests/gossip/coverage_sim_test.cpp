// A swarm of cores reading one data set in virtual time: who reads what follows PartChoice and what
// the cores tell each other, and every part read to its end is counted from outside.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gossip/part_choice.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct World {
  std::uint64_t seed = 1;
  std::uint64_t peers = 32;
  std::uint16_t parts = 1024;
  Duration part_time = seconds(10);  // what the fastest needs for one part
  double speed_spread = 4;           // fastest over slowest
  double loss = 0;                   // of any message
};

// One trainer: reads one part after the other, like the data source of a peer.
struct Reader {
  std::unique_ptr<PartChoice> choice;
  std::uint16_t part = 0;
  double left = 0;   // of it
  double speed = 0;  // parts per second
};

class ReadingSwarm {
 public:
  explicit ReadingSwarm(const World& world) : world_(world), rng_(world.seed) {
    bench.data = {77, world.parts};
    bench.passes = [this](const CoreBench::Letter& letter) {
      const bool cut = side(letter.from) != side(letter.to);
      return !cut && !rng_.chance(world_.loss);
    };
    read.resize(world.parts);
  }

  void start(std::uint64_t id, std::uint64_t life = 1) {
    bench.start(id, life);
    if (id > 1) bench.join(id, 1);
    Reader& reader = readers[id];
    reader.choice = std::make_unique<PartChoice>(world_.parts, PartChoice::Order{world_.seed, id});
    const double slowness = 1 + (world_.speed_spread - 1) * rng_.unit();
    reader.speed = 1 / to_seconds(world_.part_time) / slowness;
    take(id);
  }
  void start_all() {
    for (std::uint64_t id = 1; id <= world_.peers; ++id) start(id);
  }
  void kill(std::uint64_t id) {
    bench.crash(id);
    readers.erase(id);
  }

  // Until the swarm has read as much as `passes` times everything, whole parts or not.
  void train(double passes) {
    const double target = work_ + passes * world_.parts;
    while (work_ < target) step(milliseconds(500));
  }
  void step(Duration time) {
    bench.run(time);
    bench.held.clear();
    for (auto& [id, reader] : readers) {
      learn(id, reader);
      read_on(id, reader, reader.speed * to_seconds(time));
    }
  }

  // Share of the parts that were read at least `least` and at most `most` times.
  double share(int least, int most) const {
    const auto good = std::count_if(read.begin(), read.end(),
                                    [&](int times) { return times >= least && times <= most; });
    return static_cast<double>(good) / static_cast<double>(read.size());
  }
  // In percent of the parts: read never, k-1 times or less, k, k+1, more often.
  std::string describe(int k) const {
    const auto percent = [&](int least, int most) {
      return std::to_string(static_cast<int>(1000 * share(least, most) + 0.5) / 10.0).substr(0, 4);
    };
    return "within one " + percent(k - 1, k + 1) + ", never " + percent(0, 0) + ", fewer than k " +
           percent(0, k - 1) + ", k " + percent(k, k) + ", k+1 " + percent(k + 1, k + 1) +
           ", more " + percent(k + 2, 1 << 20);
  }

  CoreBench bench;
  std::map<std::uint64_t, Reader> readers;  // the running ones
  std::vector<int> read;                    // by part: times read to its end, by anybody
  std::uint64_t split_at = 0;  // peers up to this one do not hear the others; 0: all do

 private:
  bool side(PeerId id) const { return id.value <= split_at; }

  void take(std::uint64_t id) {
    Reader& reader = readers.at(id);
    reader.part = reader.choice->next();
    reader.left = 1;
    bench.core(id).on_parts_held(bench.now, std::span(&reader.part, 1));
  }
  void learn(std::uint64_t id, Reader& reader) {
    const auto views = bench.core(id).parts();
    for (std::uint16_t part = 0; part < world_.parts; ++part) {
      reader.choice->learn(part, views[part]);
    }
  }
  void read_on(std::uint64_t id, Reader& reader, double work) {
    work_ += work;
    for (; work >= reader.left; take(id)) {
      work -= reader.left;
      ++read[reader.part];
      reader.choice->finish(reader.part);
      bench.core(id).on_part_finished(bench.now, reader.part, 1);
    }
    reader.left -= work;
  }

  World world_;
  Rng rng_;
  double work_ = 0;
};

}  // namespace

TEST_CASE("a swarm of 32 without faults reads every part between k-1 and k+1 times in k passes") {
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    ReadingSwarm swarm({.seed = seed});
    swarm.start_all();
    for (int k = 1; k <= 4; ++k) {
      CAPTURE(k);
      swarm.train(1);
      MESSAGE("after ", k, " passes: ", swarm.describe(k));
      CHECK(swarm.share(k - 1, k + 1) >= 0.98);
      CHECK(swarm.share(k, k) >= 0.9);
    }
  }
}

TEST_CASE("parts that last no longer than their news still are read evenly, less so") {
  ReadingSwarm swarm({.seed = 4, .part_time = milliseconds(1000)});
  swarm.start_all();
  swarm.train(4);
  MESSAGE("after 4 passes: ", swarm.describe(4));
  CHECK(swarm.share(3, 5) >= 0.9);
  CHECK(swarm.share(0, 0) == 0);
}

TEST_CASE("lost messages slow the news down and no more") {
  ReadingSwarm swarm({.seed = 5, .loss = 0.2});
  swarm.start_all();
  swarm.train(3);
  MESSAGE("after 3 passes: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.95);
}

TEST_CASE("what the dead had begun is read by others") {
  ReadingSwarm swarm({.seed = 6});
  swarm.start_all();
  swarm.train(0.5);
  for (std::uint64_t id = 17; id <= 32; ++id) swarm.kill(id);  // half of the swarm at once
  swarm.train(2.5);
  MESSAGE("after 3 passes, half dead after the first half: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.95);
  CHECK(swarm.share(0, 0) == 0);
}

TEST_CASE("peers that die and come back all the time leave nothing unread") {
  ReadingSwarm swarm({.seed = 7});
  swarm.start_all();
  for (std::uint64_t round = 0; round < 24; ++round) {
    swarm.train(0.125);
    const std::uint64_t victim = 2 + round % 31;
    swarm.kill(victim);
    swarm.train(0.0);
    swarm.start(victim, 2 + round);  // with nothing: no checkpoint, no position
  }
  MESSAGE("after 3 passes with 24 restarts: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.95);
  CHECK(swarm.share(0, 0) == 0);
}

TEST_CASE("the halves of a split swarm each read on, and even out what they read twice") {
  ReadingSwarm swarm({.seed = 8});
  swarm.start_all();
  swarm.train(0.25);
  swarm.split_at = 16;
  swarm.train(1);
  MESSAGE("after 1.25 passes, split during the last: ", swarm.describe(1));
  swarm.split_at = 0;
  swarm.train(1.75);
  MESSAGE("after 3 passes: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.95);
  CHECK(swarm.share(0, 0) == 0);
}

TEST_CASE("those who come late read what the others have not") {
  ReadingSwarm swarm({.seed = 9});
  for (std::uint64_t id = 1; id <= 16; ++id) swarm.start(id);
  swarm.train(0.5);
  for (std::uint64_t id = 17; id <= 32; ++id) swarm.start(id);
  swarm.train(0.5);
  MESSAGE("after 1 pass: ", swarm.describe(1));
  swarm.train(2);
  MESSAGE("after 3 passes: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.95);
}

TEST_CASE("a member that says everything was read cannot keep the others from reading it") {
  ReadingSwarm swarm({.seed = 10});
  swarm.start_all();
  swarm.train(0.1);
  for (std::uint16_t part = 0; part < 512; ++part) {
    swarm.bench.core(1).on_part_finished(swarm.bench.now, part, 60'000);
  }
  swarm.train(2.9);
  MESSAGE("after 3 passes, half the parts said to be read 60000 times: ", swarm.describe(3));
  CHECK(swarm.share(2, 4) >= 0.85);
  CHECK(swarm.share(0, 0) == 0);
}

}  // namespace starling::gossip

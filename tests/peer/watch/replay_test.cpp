#include "peer/watch/replay.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

// Two peers: wren starts a second after heron and dies four seconds later.
struct Run {
  Run() {
    for (const char* name : {"heron", "wren"}) {
      std::filesystem::create_directories(folder / name / "checkpoints");
    }
    write_file(folder / "heron/events.jsonl",
               R"({"event":"started","seconds":0,"started":1000,"step":0,"peer":"aa"}
{"event":"peer","seconds":1.5,"peer":"bb","address":"x:1","health":"alive"}
{"event":"exchange","seconds":3,"partner":"bb","fragment":2,"outcome":"completed"}
torn
{"event":"peer","seconds":5,"peer":"bb","address":"x:1","health":"dead"}
)");
    write_file(folder / "wren/events.jsonl",
               R"({"event":"started","seconds":0,"started":1001,"step":0,"peer":"bb"}
{"event":"sung","seconds":2}
{"event":"checkpoint","seconds":2.5,"file":"1.ckpt","step":9}
)");
    write_file(folder / "heron/metrics.jsonl",
               R"({"seconds":2,"started":1000,"step":5,"loss":3.25})"
               "\n");
  }
  ScratchFolder folder;
};

struct Outcome {
  std::string out, notes, error;
};

Outcome replay(ReplayOptions options) {
  std::ostringstream out, notes;
  const Status status = run_replay(options, out, notes);
  return {out.str(), notes.str(), status.ok() ? "" : status.error().message()};
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a time that ends before it begins is refused") {
  const Run run;
  const Outcome none = replay({.run = run.folder.path(), .from = 5, .to = 1});
  CHECK(mentions(none.error, "--from 5 comes after --to 1"));
}

TEST_CASE("a run is told in order of time, and what was skipped beside it") {
  const Run run;
  const Outcome all = replay({.run = run.folder.path()});
  CHECK(all.error.empty());
  CHECK(all.out ==
        "      0.00 s  heron        started\n"
        "      1.00 s  wren         started\n"
        "      1.50 s  heron        wren at x:1 is alive\n"
        "      3.00 s  heron        exchanged fragment 2 with wren\n"
        "      3.50 s  wren         wrote 1.ckpt, step 9\n"
        "      5.00 s  heron        wren at x:1 is dead\n");
  CHECK(all.notes ==
        "2 lines were skipped: 1 damaged, 1 of kind \"sung\", which is not known here\n");
  // One peer alone: its own time, and no column for its name.
  const Outcome wren = replay({.run = run.folder / "wren"});
  CHECK(wren.out == "      0.00 s  started\n      2.50 s  wrote 1.ckpt, step 9\n");
}

TEST_CASE("times, kinds and peers are chosen from, and a wrong choice is told what there is") {
  const Run run;
  const auto lines = [&](ReplayOptions options) {
    options.run = run.folder.path();
    const std::string out = replay(options).out;
    return std::count(out.begin(), out.end(), '\n');
  };
  CHECK(lines({.from = 1.5}) == 4);
  CHECK(lines({.from = 1.5, .to = 3}) == 2);
  CHECK(lines({.kinds = {"peer"}}) == 2);
  CHECK(lines({.kinds = {"peer", "started"}}) == 4);
  CHECK(lines({.peer = "wren"}) == 5);  // told by it, or of it
  CHECK(lines({.peer = "b"}) == 5);
  CHECK(lines({.peer = "heron"}) == 4);
  CHECK(lines({.peer = "cc"}) == 0);
  const Outcome kind = replay({.run = run.folder.path(), .kinds = {"singing"}});
  CHECK(mentions(kind.error, "--kind singing: there are alarm, checkpoint, "));
  const Outcome peer = replay({.run = run.folder.path(), .peer = "crow"});
  CHECK(mentions(peer.error, "--peer crow: there are heron, wren"));
  CHECK(mentions(replay({.run = run.folder / "wren/checkpoints"}).error, "no events.jsonl"));
}

TEST_CASE("as JSON every event is a line with its time and its teller") {
  const Run run;
  const Outcome all = replay({.run = run.folder.path(), .json = true});
  std::istringstream lines(all.out);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 6);
  CHECK(events[1]["time"] == 1.0);
  CHECK(events[1]["teller"] == "wren");
  CHECK(events[1]["event"] == "started");
}

TEST_CASE("what a line nests without end is left out") {
  const ScratchFolder folder;
  constexpr std::size_t kDepth = 30'000;  // of a line that is read
  write_file(folder / "events.jsonl", R"({"event":"started","seconds":0,"x":)" +
                                          std::string(kDepth, '[') + std::string(kDepth, ']') +
                                          "}\n");
  CHECK(mentions(replay({.run = folder.path()}).out, "started"));
  CHECK(replay({.run = folder.path(), .json = true}).out.size() < 100);
}

TEST_CASE("whoever steps sees how things stood, and ends it by q or the end of input") {
  const Run run;
  const auto steps = [&](const std::string& answers) {
    std::istringstream in(answers);
    return replay({.run = run.folder.path(), .steps = &in}).out;
  };
  CHECK(!mentions(steps("q\n"), "started"));
  const std::string two = steps("\n\nq\n");
  CHECK(mentions(two, "heron        started"));
  CHECK(mentions(two, "wren         started"));
  CHECK(!mentions(two, "alive\n"));
  const std::string four = steps("\n3\n");
  CHECK(mentions(four, "1 others alive, 1 exchanges, 0 failed, step 5, loss 3.2500"));
  CHECK(!mentions(four, "1.ckpt"));
  CHECK(mentions(steps("99999999999999999999999\n\n\n\n\n\n"), "is dead"));
  CHECK(mentions(steps("100\n"), "is dead"));
}

}  // namespace starling::peer

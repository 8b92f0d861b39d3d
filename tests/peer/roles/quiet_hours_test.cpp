// Whole peers on loopback, by run_peer(), with a time of day that the test sets: what becomes of
// bandwidth.quiet_hours and gigabytes_per_day on the way through all roles. They tell by their run
// folders, as they do their operators. The rules themselves are in traffic_plan_test.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "peer/files/key_files.h"
#include "peer/files/token_shard.h"
#include "peer/roles/peer.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/free_ports.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr std::string_view kConfig = R"(
[run]
name = "quiet"
tokens = 1000000000000
log_level = "error"
[model]
width = 32
layers = 2
heads = 2
kv_heads = 1
ffn = 64
context = 32
[batch]
sequences = 4
tokens = 32
[outer]
fragments = 2
steps_per_round = 20
local_steps = "fixed"
[gossip]
ping_interval_ms = 200
suspect_after_ms = 4000
dead_after_ms = 4000
closing_seconds = 0
[join]
state = "none"
wait_seconds = 60
newcomer_tokens = 1000
[data]
validation = []
[checkpoint]
every_steps = 500
[metrics]
every_steps = 50
validate_every_steps = 0
tensorboard = false
[status]
listen = ""
[device]
name = "cpu"
threads = 1
pin = false
)";

// Of a clock that a test sets. Any thread.
class Hands {
 public:
  Hands(int hour, int minute) { set(0, hour, minute); }
  void set(int day, int hour, int minute) { minutes_ = (20'000 + day) * 1440 + hour * 60 + minute; }
  Date date() const {
    return [this] { return WallTime{60 * minutes_.load(), static_cast<int>(minutes_ % 1440)}; };
  }

 private:
  std::atomic<std::int64_t> minutes_;
};

// Waits for what needs real time; false: it did not come about.
template <class Done>
bool comes_about(Done&& done) {
  for (int i = 0; i < 6000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return done();
}

// One peer and what it has written. Those of a test end together, by the signal that ends a peer.
class RunningPeer {
 public:
  RunningPeer(const ScratchFolder& folder, const std::string& name, Date date,
              std::vector<std::string> settings)
      : folder_(folder / "runs" / "quiet" / name) {
    settings.insert(settings.end(),
                    {"run.folder=" + (folder / "runs").string(), "run.peer_name=" + name,
                     "data.train=[\"" + (folder / "train.tok").string() + "\"]"});
    auto config = parse_config(kConfig, "test", settings);
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    thread_ = std::thread([this, date = std::move(date), config = std::move(config).value()] {
      const Status ended = run_peer(config, {.date = date});
      if (!ended.ok()) error_ = ended.error().message();
      ended_ = true;
    });
    signalled_ = false;
    runs_ = comes_about([this] { return ended_ || count({{"event", "started"}}) > 0; });
  }
  ~RunningPeer() {
    // The first one's signal is for all; a second one would end this process.
    if (!ended_ && !std::exchange(signalled_, true)) std::raise(SIGTERM);
    thread_.join();
    CHECK_MESSAGE(error_.empty(), error_);
  }
  RunningPeer(const RunningPeer&) = delete;
  RunningPeer& operator=(const RunningPeer&) = delete;

  bool runs() const { return runs_ && !ended_; }
  std::string id() const { return events({{"event", "started"}}).at(0).at("peer"); }

  // Events that have all these fields.
  std::vector<json> events(const json& fields) const {
    std::vector<json> found;
    std::istringstream lines(testing::read_file(folder_ / "events.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line, nullptr, false);  // the last may be half a line
      const bool fits =
          event.is_object() &&
          std::all_of(fields.items().begin(), fields.items().end(), [&](const auto& f) {
            return event.contains(f.key()) && event.at(f.key()) == f.value();
          });
      if (fits) found.push_back(event);
    }
    return found;
  }
  std::size_t count(const json& fields) const { return events(fields).size(); }
  std::size_t exchanges(std::string_view outcome) const {
    return count({{"event", "exchange"}, {"outcome", outcome}});
  }
  bool told(std::string_view alarm, bool up) const {
    const auto all = events({{"event", "alarm"}, {"kind", alarm}});
    return !all.empty() && all.back().at("up") == up;
  }

  // The last line of its metrics.
  json metrics() const {
    const std::string text = testing::read_file(folder_ / "metrics.jsonl");
    const std::size_t end = text.find_last_of('\n');
    if (end == std::string::npos)
      return {{"step", 0}, {"seconds", 0.0}, {"bytes_in", 0}, {"bytes_out", 0}};
    const std::size_t before = text.find_last_of('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    return json::parse(text.substr(begin, end - begin));
  }
  std::uint64_t step() const { return metrics().at("step"); }

 private:
  const std::filesystem::path folder_;
  std::string error_;  // read when it has ended
  std::atomic<bool> ended_ = false;
  bool runs_ = false;
  inline static bool signalled_ = false;  // those that run
  std::thread thread_;
};

void write_data(const ScratchFolder& folder) {
  auto writer = ShardWriter::create(folder / "train.tok",
                                    {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
  REQUIRE(writer.ok());
  std::vector<std::int32_t> tokens(5000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 17);
  REQUIRE(writer.value().append(tokens).ok());
  REQUIRE(writer.value().finish().ok());
}

// Where a peer listens, and what others need to call it.
struct Place {
  Place(const ScratchFolder& folder, const std::string& name) {
    const auto file = folder / (name + ".key");
    auto identity = load_or_make_identity(file);
    REQUIRE(identity.ok());
    const auto [control, bulk] = testing::free_ports();
    const std::string address = "127.0.0.1:" + std::to_string(control);
    settings = {"trust.key=" + file.string(), "gossip.listen=" + address,
                "gossip.bulk_port=" + std::to_string(bulk)};
    seed = "gossip.seeds=[\"" + gossip::to_string(identity.value().key()) + "@" + address + "\"]";
  }
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all = settings;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> settings;
  std::string seed;
};

const json kBegun{{"event", "exchange"}, {"initiated", true}};

}  // namespace

TEST_CASE("in its quiet hours a peer exchanges and serves nothing, trains on and stays a member") {
  const ScratchFolder folder;
  write_data(folder);
  const Place here(folder, "here"), there(folder, "there"), late(folder, "late");
  Hands hands(21, 50);
  const RunningPeer quiet(folder, "quiet", hands.date(),
                          here.with({"bandwidth.quiet_hours=22:00-07:30"}));
  REQUIRE(quiet.runs());
  // Or, begun slowly, it might count as a newcomer itself when they meet.
  REQUIRE(comes_about([&] { return quiet.step() >= 50; }));
  const RunningPeer other(folder, "other", wall_now, there.with({here.seed, "join.serve_max=0"}));
  REQUIRE(other.runs());
  REQUIRE(comes_about([&] {
    return quiet.count(kBegun) > 0 && quiet.exchanges("completed") > 2 &&
           other.exchanges("completed") > 2 && quiet.count({{"event", "checkpoint"}}) > 0;
  }));
  CHECK_FALSE(quiet.told("resting", true));

  const std::size_t declined_before = other.exchanges("declined");
  hands.set(0, 22, 0);
  REQUIRE(comes_about([&] { return quiet.told("resting", true); }));
  const auto trains = [&](std::uint64_t steps) {
    const std::uint64_t before = quiet.step();
    return comes_about([&] { return quiet.step() >= before + steps; });
  };
  const auto completed = [&] {
    return quiet.exchanges("completed") +
           other.count({{"event", "exchange"}, {"outcome", "completed"}, {"partner", quiet.id()}});
  };
  // What was under way when they began may end. Who was declined offers again after a minute.
  REQUIRE(comes_about([&] { return other.exchanges("declined") > declined_before; }));
  REQUIRE(trains(200));
  const std::size_t settled = completed();
  const std::size_t begun = quiet.count(kBegun);
  const double other_seconds = other.metrics().at("seconds");

  const RunningPeer newcomer(folder, "newcomer", wall_now,
                             late.with({here.seed, "join.state=weights"}));
  REQUIRE(newcomer.runs());
  const json declined{{"event", "join"}, {"step", "declined by"}, {"peer", quiet.id()}};
  REQUIRE(comes_about([&] { return newcomer.count(declined) > 0; }));
  CHECK(newcomer.events(declined).front().at("reason") == "busy with others");
  for (const auto& [day, hour, minute] : {std::tuple(0, 23, 59), {1, 0, 0}, {1, 7, 29}}) {
    CAPTURE(hour);
    hands.set(day, hour, minute);
    REQUIRE(trains(200));
    CHECK(quiet.told("resting", true));
  }
  // Longer than a silent one is believed to live.
  REQUIRE(comes_about([&] { return other.metrics().at("seconds") > other_seconds + 10; }));
  CHECK(completed() == settled);
  CHECK(quiet.count(kBegun) == begun);
  CHECK(quiet.count({{"event", "join"}}) == 0);  // it served nobody
  CHECK(newcomer.count({{"event", "joined"}}) == 0);
  CHECK(other.count({{"event", "peer"}, {"peer", quiet.id()}, {"health", "dead"}}) == 0);
  CHECK(quiet.count({{"event", "peer"}, {"peer", other.id()}, {"health", "dead"}}) == 0);

  hands.set(1, 7, 30);
  REQUIRE(comes_about([&] { return quiet.told("resting", false); }));
  CHECK(comes_about([&] { return quiet.count(kBegun) > begun && completed() > settled + 2; }));
  const Place later(folder, "later");
  const RunningPeer served(folder, "served", wall_now,
                           later.with({here.seed, "join.state=weights"}));
  CHECK(comes_about([&] {
    return served.count({{"event", "joined"}, {"outcome", "fetched"}}) > 0;
  }));
}

TEST_CASE(
    "a peer whose bytes are to last all day rests when an hour's are used up, and trains on") {
  constexpr double kDay = 3e7;
  const ScratchFolder folder;
  write_data(folder);
  const Place here(folder, "here"), there(folder, "there");
  Hands hands(12, 0);
  const RunningPeer thrifty(folder, "thrifty", hands.date(),
                            here.with({fmt::format("bandwidth.gigabytes_per_day={}", kDay / 1e9)}));
  REQUIRE(thrifty.runs());
  const RunningPeer other(folder, "other", wall_now, there.with({here.seed}));
  REQUIRE(other.runs());
  const auto bytes = [&] {
    const json metrics = thrifty.metrics();
    return metrics.at("bytes_in").get<double>() + metrics.at("bytes_out").get<double>();
  };
  // None completes during so many steps.
  const auto rests = [&] {
    const std::size_t completed = thrifty.exchanges("completed");
    const std::uint64_t step = thrifty.step();
    REQUIRE(comes_about([&] { return thrifty.step() >= step + 300; }));
    return thrifty.exchanges("completed") == completed;
  };
  const std::size_t declined = other.exchanges("declined");
  for (const int hour : {12, 13}) {
    CAPTURE(hour);
    hands.set(0, hour, 0);
    // What is used up is a little less than a 24th of the day's, so that a day's are enough.
    REQUIRE(comes_about([&] { return bytes() > (hour - 11) * 0.9 * kDay / 24; }));
    // It begins none by itself, and the other learns of it.
    REQUIRE(comes_about([&] { return rests() && other.exchanges("declined") > declined; }));
    const std::size_t begun = thrifty.count(kBegun);
    CHECK(rests());
    CHECK(thrifty.count(kBegun) == begun);
    // An hour's share, the one that it may be ahead, and small messages.
    CHECK(bytes() < (hour - 9) * kDay / 24);
  }
}

TEST_CASE("a newcomer in its quiet hours waits for their end, and only then fetches") {
  const ScratchFolder folder;
  write_data(folder);
  const Place here(folder, "here"), late(folder, "late");
  const RunningPeer donor(folder, "donor", wall_now, here.settings);
  REQUIRE(donor.runs());
  REQUIRE(comes_about([&] { return donor.count({{"event", "checkpoint"}}) > 0; }));
  Hands hands(6, 0);
  const RunningPeer newcomer(
      folder, "newcomer", hands.date(),
      late.with({here.seed, "join.state=weights", "bandwidth.quiet_hours=22:00-07:30"}));
  REQUIRE(newcomer.runs());
  REQUIRE(comes_about([&] { return newcomer.told("resting", true); }));
  REQUIRE(comes_about([&] {
    return newcomer.count({{"event", "peer"}, {"health", "alive"}}) > 0;
  }));
  const std::uint64_t step = donor.step();
  REQUIRE(comes_about([&] { return donor.step() >= step + 500; }));
  CHECK(donor.count({{"event", "join"}}) == 0);
  CHECK(newcomer.count({{"event", "joined"}}) == 0);
  hands.set(0, 7, 30);
  CHECK(comes_about([&] {
    return newcomer.count({{"event", "joined"}, {"outcome", "fetched"}}) > 0;
  }));
  CHECK(comes_about([&] { return newcomer.step() > 0; }));
}

}  // namespace starling::peer

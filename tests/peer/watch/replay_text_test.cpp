#include "peer/watch/replay_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace starling::peer {

using nlohmann::json;

namespace {

const std::vector<LoggedPeer> kPeers = {
    {.name = "heron", .id = "00000000000000aa"},
    {.name = "wren"},
};

std::string told(const json& event) { return event_text(event, kPeers); }

}  // namespace

TEST_CASE("events are told as sentences, with the names of peers that are known") {
  CHECK(told({{"event", "started"}, {"step", 0}}) == "started");
  CHECK(told({{"event", "started"}, {"step", 70}}) == "started again, from step 70");
  json exchange = {{"event", "exchange"},
                   {"fragment", 3},
                   {"partner", "00000000000000aa"},
                   {"outcome", "completed"}};
  CHECK(told(exchange) == "exchanged fragment 3 with heron");
  exchange["outcome"] = "timed out";
  exchange["partner"] = "00000000000000bb";
  CHECK(told(exchange) == "exchange of fragment 3 with 00000000000000bb: timed out");
  CHECK(told({{"event", "peer"},
              {"peer", "00000000000000aa"},
              {"address", "[::1]:7700"},
              {"health", "dead"}}) == "heron at [::1]:7700 is dead");
  CHECK(told({{"event", "peer"},
              {"peer", "00000000000000aa"},
              {"address", "[::1]:7700"},
              {"health", "left"}}) == "heron at [::1]:7700 has left");
  CHECK(told({{"event", "swarm"}, {"change", "split"}, {"moved", 4}, {"alive", 3}}) ==
        "the swarm has split: 4 peers fell silent at once, 3 are left");
  json refused = {{"event", "refused"},
                  {"by_us", true},
                  {"peer", "00000000000000aa"},
                  {"address", "x:1"},
                  {"reason", "another model"}};
  CHECK(told(refused) == "refused heron at x:1: another model");
  refused["by_us"] = false;
  CHECK(told(refused) == "refused by heron at x:1: another model");
  CHECK(told({{"event", "alarm"}, {"kind", "late"}, {"up", true}, {"text", "Fragment 3 waits."}}) ==
        "alarm (late): Fragment 3 waits.");
  CHECK(told({{"event", "alarm"}, {"kind", "late"}, {"up", false}, {"text", ""}}) ==
        "no alarm (late) any more");
  CHECK(told({{"event", "footing"}, {"footing", "pulled"}, {"missed_seconds", 2000}}) ==
        "pulled: its weights count for little yet");
  CHECK(told({{"event", "footing"}, {"footing", "late"}}) ==
        "late: its weights count for less yet");
  CHECK(told({{"event", "footing"}, {"footing", "settled"}}) ==
        "its weights count like the others': it has met them");
  json pace = {
      {"event", "pace"}, {"fastest", "00000000000000aa"}, {"behind", true}, {"speed_share", 0.05}};
  CHECK(told(pace) == "shorter rounds: heron is taken for 20 times as fast");
  pace["behind"] = false;
  CHECK(told(pace) == "rounds as long as its own suggest");
  CHECK(told({{"event", "checkpoint"}, {"file", "7.ckpt"}, {"step", 700}}) ==
        "wrote 7.ckpt, step 700");
}

TEST_CASE("an event of any kind with nothing, or nonsense, in it is told all the same") {
  for (const std::string& kind : event_kinds()) {
    CAPTURE(kind);
    CHECK(!told({{"event", kind}}).empty());
    json nonsense = {{"event", kind}};
    for (const char* key : {"peer", "partner", "address", "health", "change", "reason", "outcome",
                            "step", "file", "why", "what", "kind", "text"}) {
      nonsense[key] = "\x1b[2J\n\xc2\x9b";
    }
    for (const char* key : {"fragment", "moved", "count", "minutes", "said", "by_us", "on"}) {
      nonsense[key] = json::array({1e308});
    }
    const std::string text = told(nonsense);
    CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
}

TEST_CASE("the state counts the living and the exchanges, and takes the losses of before") {
  LoggedPeer peer;
  peer.losses = {{.seconds = 1, .step = 10, .loss = 5, .validation = 6},
                 {.seconds = 2, .step = 20, .loss = 4}};
  ReplayState state;
  CHECK(state.text(peer, 0.5) == "0 others alive, 0 exchanges, 0 failed");
  const auto health = [&state](const char* id, const char* now) {
    state.take({{"event", "peer"}, {"peer", id}, {"health", now}});
  };
  health("a", "alive");
  health("b", "alive");
  health("b", "alive");
  health("c", "alive");
  health("a", "suspect");
  health("b", "dead");
  health("c", "left");
  state.take({{"event", "exchange"}, {"outcome", "completed"}});
  state.take({{"event", "exchange"}, {"outcome", "declined"}});
  state.take({{"event", "exchange"}, {"outcome", "timed out"}});
  CHECK(state.text(peer, 2.5) ==
        "1 others alive, 1 exchanges, 1 failed, step 20, loss 4.0000, validation 6.0000");
  CHECK(state.text(peer, 1) ==
        "1 others alive, 1 exchanges, 1 failed, step 10, loss 5.0000, validation 6.0000");
  state.take({{"event", "started"}});
  CHECK(state.text(peer, 0).starts_with("0 others alive, 1 exchanges"));
}

}  // namespace starling::peer

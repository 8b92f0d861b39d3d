#include "peer/swarm/swarm_view.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace starling::peer {
namespace {

ChildView trained() {
  ChildView peer;
  peer.name = "peer-0";
  PeerStatus status;
  status.step = 10;
  status.tokens = 20'000;
  status.tokens_budget = 1'000'000;
  status.train_seconds = 2;
  peer.first = status;
  status.step = 300;
  status.tokens = 620'000;
  status.train_seconds = 52;
  status.held_seconds = 0.13;
  status.tokens_per_second = 12'345;
  status.loss = 2.34567;
  status.validation_loss = 2.5;
  status.partners = 3;
  status.exchanges = 41;
  status.exchanges_failed = 1;
  status.bytes_out = 1'300'000;
  status.bytes_in = 900;
  status.last_exchange_seconds_ago = 1.6;
  status.disagreement = 0.00123;
  status.parts = 1000;
  status.parts_never = 100;
  status.parts_once = 850;
  status.checkpoint = "runs/demo/peer-0/checkpoints/3.ckpt";
  status.checkpoints = 3;
  peer.latest = status;
  return peer;
}

std::vector<ChildView> swarm() {
  ChildView fresh;
  fresh.name = "peer-1";
  ChildView young = trained();
  young.name = "peer-2";
  young.latest = PeerStatus{};
  young.first = young.latest;
  ChildView dead = trained();
  dead.name = "peer-3";
  dead.running = false;
  dead.state = "failed";
  dead.latest->validation_loss = 2.55;
  dead.latest->parts_never = 120;  // it has heard less
  return {trained(), fresh, young, dead};
}

TEST_CASE("the progress table is what a user reads") {
  const std::string expected =
      "peer       phase        step  done    tok/s     loss partners       out        in   last  "
      "disagree\n"
      "peer-0     training      300   62%   12.3 k   2.3457        3  1.24 MiB     900 B    2 s  "
      "1.23e-03\n"
      "peer-1     starting\n"
      "peer-2     training        0     -        0        -        0       0 B       0 B      -  "
      "       -\n"
      "peer-3     failed        300   62%   12.3 k   2.3457        3  1.24 MiB     900 B    2 s  "
      "1.23e-03\n";
  CHECK(progress_table(swarm(), 98) == expected);
}

TEST_CASE("a narrow terminal shows what says most, in whole columns") {
  const std::vector<ChildView> peers = {trained()};
  CHECK(progress_table(peers, 80) ==
        "peer       phase        step  done    tok/s     loss       out   last  disagree\n"
        "peer-0     training      300   62%   12.3 k   2.3457  1.24 MiB    2 s  1.23e-03\n");
  CHECK(progress_table(peers, 40) ==
        "peer       phase      done     loss\n"
        "peer-0     training    62%   2.3457\n");
  CHECK(progress_table(peers, 1).starts_with("peer       phase    \n"));
}

TEST_CASE("the summary tells what each peer did, and the average") {
  const AverageView average{.checkpoint = "runs/demo/average.ckpt",
                            .kept = "",
                            .peers = 4,
                            .tokens = 1'240'000,
                            .validation_loss = 2.4};
  const std::string expected =
      "peer           tokens    tok/s train loss valid loss exchanges failed       out        in   "
      " "
      "held\n"
      "peer-0          620 k   12.0 k     2.3457     2.5000        41      1  1.24 MiB     900 B   "
      "0.25%\n"
      "peer-1       starting\n"
      "peer-2              0        0          -          -         0      0       0 B       0 B   "
      " "
      "   -\n"
      "peer-3          620 k   12.0 k     2.3457     2.5500        41      1  1.24 MiB     900 B   "
      "0.25%\n"
      "average        1.24 M                         2.4000\n"
      "Validation losses of the peers differ by 2.00% at most.\n"
      "Training data: 10.0% never read to the end, 85.0% once, 5.0% more often.\n"
      "Checkpoints:\n"
      "  peer-0       runs/demo/peer-0/checkpoints/3.ckpt\n"
      "  peer-1       none of this start\n"
      "  peer-2       none of this start\n"
      "  peer-3       runs/demo/peer-0/checkpoints/3.ckpt\n"
      "  average      runs/demo/average.ckpt\n";
  CHECK(summary_table(swarm(), average) == expected);
}

TEST_CASE("a summary without an average leaves it out") {
  const std::vector<ChildView> peers = {trained()};
  const std::string text = summary_table(peers, std::nullopt);
  CHECK(text.find("average") == std::string::npos);
  CHECK(text.find("differ") == std::string::npos);
}

TEST_CASE("a swarm whose checkpoints left nothing to train says what to raise") {
  std::vector<ChildView> peers = {trained(), trained()};
  for (ChildView& peer : peers) {
    peer.latest->tokens_budget = peer.latest->tokens;
    CHECK(summary_table(peers, std::nullopt).find("run.tokens") == std::string::npos);
    peer.latest->train_seconds = 0;
  }
  CHECK(summary_table(peers, std::nullopt).find("Raise it to train on") != std::string::npos);
}

TEST_CASE("two peers that trained without any exchange are named") {
  std::vector<ChildView> peers = swarm();
  CHECK(lonely_peers(peers).empty());
  peers[3].latest->exchanges = 0;
  CHECK(lonely_peers(peers).empty());  // the only one
  peers[0].latest->exchanges = 0;
  CHECK(lonely_peers(peers).find("Warning: peer-0, peer-3 trained without") == 0);
}

TEST_CASE("the spread needs two peers that were measured") {
  std::vector<ChildView> peers = swarm();
  CHECK(validation_spread(peers).value() == doctest::Approx(0.02));
  peers.pop_back();
  CHECK_FALSE(validation_spread(peers).has_value());
}

TEST_CASE("the mean rate counts only what this process has trained") {
  ChildView peer = trained();
  CHECK(mean_tokens_per_second(peer) == doctest::Approx(12'000));
  peer.first = peer.latest;
  CHECK(mean_tokens_per_second(peer) == doctest::Approx(12'345));
  CHECK(mean_tokens_per_second(ChildView{}) == 0);
}

TEST_CASE("a terminal is repainted in place and notes stay above the table") {
  const std::vector<ChildView> peers = {swarm()[1]};
  std::ostringstream out;
  ProgressDisplay display(out, 16);
  display.show(peers);
  CHECK(out.str() == "\x1b[2Kpeer       phase\n\x1b[2Kpeer-1     start\n");
  out.str("");
  display.show(peers);
  CHECK(out.str().substr(0, 8) == "\x1b[2A\x1b[2K");
  out.str("");
  display.note("peer-1 ended");
  CHECK(out.str() == "\x1b[2A\x1b[Jpeer-1 ended\n");
  out.str("");
  display.show(peers);
  CHECK(out.str().substr(0, 5) == "\x1b[2Kp");
}

TEST_CASE("a file gets one block after another and no control codes") {
  const std::vector<ChildView> peers = swarm();
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  display.show(peers);
  display.note("peer-3 ended");
  display.show(peers);
  const std::string table = progress_table(peers, 1000);
  CHECK(out.str() == table + "peer-3 ended\n" + table);
}

}  // namespace
}  // namespace starling::peer

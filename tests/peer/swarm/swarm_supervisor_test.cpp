// Children here are shell scripts that speak like a peer.
#include "peer/swarm/swarm_supervisor.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "peer/io/clock.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

PeerLaunch launch(const ScratchFolder& folder, const std::string& name, const std::string& script) {
  return {
      .name = name,
      .command = {.arguments = {"/bin/sh", "-c", script}, .log = folder.path() / (name + ".txt")}};
}

std::string says(int step) {
  return "echo '{\"phase\": \"training\", \"step\": " + std::to_string(step) + "}'; ";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the supervisor keeps the last status of each peer and ends with the last of them") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  SwarmSupervisor swarm({launch(folder, "peer-0", says(1) + says(2)),
                         launch(folder, "peer-1", says(3) + "sleep 0.3; " + says(4))},
                        {.refresh_ms = 100}, display);
  REQUIRE(swarm.run().ok());
  REQUIRE(swarm.peers().size() == 2);
  CHECK(swarm.peers()[0].first->step == 1);
  CHECK(swarm.peers()[0].latest->step == 2);
  CHECK(swarm.peers()[1].latest->step == 4);
  CHECK_FALSE(swarm.failed(0));
  CHECK_FALSE(swarm.failed(1));
  CHECK(contains(out.str(), "peer-1     training"));
}

TEST_CASE("a peer that dies is told at once with the end of its log and the others go on") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  SwarmSupervisor swarm({launch(folder, "peer-0", says(1) + "echo 'no \033[2J memory' >&2; exit 3"),
                         launch(folder, "peer-1", "sleep 0.3; " + says(9))},
                        {.refresh_ms = 100}, display);
  REQUIRE(swarm.run().ok());
  CHECK(swarm.failed(0));
  CHECK(swarm.peers()[0].state == "failed");
  CHECK_FALSE(swarm.failed(1));
  CHECK(swarm.peers()[1].latest->step == 9);
  CHECK(contains(out.str(), "peer-0 ended: exit code 3"));
  CHECK(contains(out.str(), "  no ?[2J memory"));
}

TEST_CASE("of the log of a peer that dies no line of an earlier start is told") {
  const ScratchFolder folder;
  for (const char* name : {"peer-0.txt", "peer-1.txt"}) {
    std::ofstream(folder.path() / name) << "of yesterday\n";
  }
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  // Each start of the first says something else, and the last one tells no status.
  const std::string mark = (folder.path() / "mark").string();
  const std::string twice = "if [ -e " + mark + " ]; then echo second >&2; else touch " + mark +
                            "; echo first >&2; " + says(1) + "fi; exit 3";
  SwarmSupervisor swarm({launch(folder, "peer-0", twice), launch(folder, "peer-1", "exit 4")},
                        {.restart = true, .restart_after_ms = 50, .silent_starts_max = 1}, display);
  REQUIRE(swarm.run().ok());
  const std::string text = out.str();
  CHECK_FALSE(contains(text, "yesterday"));
  CHECK(contains(text, "peer-1 ended: exit code 4. It left nothing in " +
                           (folder.path() / "peer-1.txt").string() + "\n"));
  CHECK(contains(text, "  first\n"));
  CHECK(text.find("  first\n") == text.rfind("  first\n"));
  CHECK(contains(text.substr(text.find("peer-0 is started again.")), "  second\n"));
}

TEST_CASE("hostile lines of a peer are told once and do no harm") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  SwarmSupervisor swarm(
      {launch(folder, "peer-0",
              says(1) +
                  "echo; echo '{}}'; echo '{\"step\": -4}'; head -c 300000 /dev/zero; "
                  "echo; " +
                  says(2))},
      {}, display);
  REQUIRE(swarm.run().ok());
  CHECK(swarm.peers()[0].latest->step == 2);
  const std::string text = out.str();
  CHECK(contains(text, "peer-0: status line"));
  CHECK(text.find("peer-0: status") == text.rfind("peer-0: status"));
}

TEST_CASE("a first interrupt lets the peers leave and a second one kills them") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  // The third one is the user at the keyboard: each signal is sent when the last has had its
  // effect; the second one when the supervisor has seen the polite peer end.
  const std::string at = folder.path().string() + "/";
  const auto wait_for = [&at](const std::string& mark) {
    return "until [ -e " + at + mark + " ]; do sleep 0.02; done; ";
  };
  const std::string polite = "leave() { kill $!; " + says(7) +
                             "exit 0; }; trap leave INT; echo $$ > " + at +
                             "pid; sleep 60 & touch " + at + "polite; wait";
  const std::string stubborn = "trap '' INT; touch " + at + "stubborn; exec sleep 60";
  const std::string user = "trap '' INT; " + wait_for("polite") + wait_for("stubborn") +
                           "kill -INT $PPID; while kill -0 $(cat " + at +
                           "pid); do sleep 0.02; done; kill -INT $PPID; exec sleep 60";
  SwarmSupervisor swarm({launch(folder, "polite", polite), launch(folder, "stubborn", stubborn),
                         launch(folder, "user", user)},
                        {.one_interrupt_ms = 0}, display);
  const Instant start = now();
  REQUIRE(swarm.run().ok());
  CHECK(seconds_since(start) < 30);
  CHECK_FALSE(swarm.failed(0));
  CHECK(swarm.peers()[0].latest->step == 7);
  CHECK(swarm.failed(1));
  CHECK(contains(out.str(), "Stopping"));
  CHECK(contains(out.str(), "Killing"));
}

TEST_CASE("a signal that comes twice at once, as from GNU timeout, kills nobody") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  const std::string mark = (folder.path() / "ready").string();
  // Told to leave, it takes its time, in which the signal comes again.
  const std::string polite = "leave() { kill $!; kill -TERM $PPID; sleep 0.3; " + says(7) +
                             "exit 0; }; trap leave INT; sleep 60 & touch " + mark + "; wait";
  const std::string user =
      "trap '' INT; until [ -e " + mark + " ]; do sleep 0.02; done; kill -TERM $PPID";
  SwarmSupervisor swarm({launch(folder, "polite", polite), launch(folder, "user", user)},
                        {.one_interrupt_ms = 60'000}, display);
  REQUIRE(swarm.run().ok());
  CHECK_FALSE(swarm.failed(0));
  CHECK(swarm.peers()[0].latest->step == 7);
  CHECK(contains(out.str(), "Stopping"));
  CHECK_FALSE(contains(out.str(), "Killing"));
}

TEST_CASE("a lost terminal has the peers leave, once, unless hangups were ignored at the start") {
  for (const bool ignored : {false, true}) {
    CAPTURE(ignored);
    const ScratchFolder folder;
    std::ostringstream out;
    ProgressDisplay display(out, 0);
    const auto before = ::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
    const std::string mark = (folder.path() / "ready").string();
    // Told to leave, it takes its time, in which the second hangup comes.
    const std::string polite = "leave() { kill $!; kill -HUP $PPID; sleep 0.3; " + says(7) +
                               "exit 0; }; trap leave INT; sleep 60 & touch " + mark + "; wait";
    const std::string brief = "sleep 0.3; " + says(8);
    const std::string user =
        (ignored ? std::string() : "until [ -e " + mark + " ]; do sleep 0.02; done; ") +
        "kill -HUP $PPID; sleep 0.1; " + says(1);
    SwarmSupervisor swarm(
        {launch(folder, "peer", ignored ? brief : polite), launch(folder, "user", user)}, {},
        display);
    REQUIRE(swarm.run().ok());
    ::signal(SIGHUP, before);
    CHECK_FALSE(swarm.failed(0));
    CHECK(swarm.peers()[0].latest->step == (ignored ? 8 : 7));
    CHECK(contains(out.str(), "Stopping") != ignored);
    CHECK_FALSE(contains(out.str(), "Killing"));
  }
}

TEST_CASE("a peer that dies is started again if asked for") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  const std::string mark = (folder.path() / "mark").string();
  const std::string script = "if [ -e " + mark + " ]; then " + says(20) + "else touch " + mark +
                             "; " + says(10) + "kill -9 $$; fi";
  SwarmSupervisor swarm({launch(folder, "peer-0", script)},
                        {.restart = true, .restart_after_ms = 50}, display);
  REQUIRE(swarm.run().ok());
  CHECK_FALSE(swarm.failed(0));
  CHECK(swarm.peers()[0].first->step == 20);
  CHECK(contains(out.str(), "killed by signal 9"));
  CHECK(contains(out.str(), "peer-0 is started again."));
}

TEST_CASE("a peer that has trained is started again until it comes up, less and less often") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  const std::string starts = (folder.path() / "starts").string();
  const std::string script = "echo >> " + starts + "; case $(wc -l < " + starts + ") in 1) " +
                             says(10) + "kill -9 $$;; 2|3|4) exit 1;; *) " + says(20) + ";; esac";
  SwarmSupervisor swarm({launch(folder, "peer-0", script)},
                        {.restart = true, .restart_after_ms = 50, .restart_after_max_ms = 400},
                        display);
  const Instant begun = now();
  REQUIRE(swarm.run().ok());
  CHECK_FALSE(swarm.failed(0));
  CHECK(swarm.peers()[0].first->step == 20);
  CHECK(now() - begun >= std::chrono::milliseconds(50 + 100 + 200 + 400));
}

TEST_CASE("a peer that is started again is given what is for restarts alone") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  PeerLaunch peer =
      launch(folder, "peer-0",
             "if [ \"$1\" = on ]; then " + says(20) + "else " + says(10) + "kill -9 $$; fi");
  peer.restart_arguments = {"go", "on"};  // the shell takes the first for its name
  SwarmSupervisor swarm({peer}, {.restart = true, .restart_after_ms = 50}, display);
  REQUIRE(swarm.run().ok());
  CHECK_FALSE(swarm.failed(0));
  CHECK(swarm.peers()[0].first->step == 20);
  CHECK(contains(out.str(), "killed by signal 9"));
}

TEST_CASE("a peer that never told a status is not started again") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  SwarmSupervisor swarm({launch(folder, "peer-0", "echo 'bad key' >&2; exit 1")},
                        {.restart = true, .restart_after_ms = 50}, display);
  REQUIRE(swarm.run().ok());
  CHECK(swarm.failed(0));
  CHECK(contains(out.str(), "  bad key"));
}

TEST_CASE("a peer that cannot be started is an error and ends the others") {
  const ScratchFolder folder;
  std::ostringstream out;
  ProgressDisplay display(out, 0);
  PeerLaunch missing = launch(folder, "peer-1", "");
  missing.command.arguments = {"/nowhere/starling"};
  SwarmSupervisor swarm({launch(folder, "peer-0", "sleep 60"), missing}, {}, display);
  Status ran = swarm.run();
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.error().message().substr(0, 7) == "peer-1:");
}

}  // namespace
}  // namespace starling::peer

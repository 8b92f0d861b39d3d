// SwarmSupervisor: runs the peers of one machine as child processes and watches them until the last
// one has ended. It parses their status lines, refreshes the display, tells at once when a peer
// dies (how, and the end of its log) and lets the others go on.
//
// The first SIGINT, SIGTERM or SIGHUP is passed on as SIGINT: the peers save and leave. Another one
// kills them, unless it comes at once: GNU timeout and others signal a program and then the group
// of processes that it is in. A peer that died is restarted only if asked for, and only if it ever
// told a status: one that could never start would fail the same way again. One that dies soon after
// each start waits twice as long for each, and silent_starts_max in a row that told nothing are the
// last. Thread: the caller's, for all of run(). Errors: a peer that cannot be started (the others
// are then killed).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/swarm/child_process.h"
#include "peer/swarm/swarm_view.h"

namespace starling::peer {

struct PeerLaunch {
  std::string name;
  ChildCommand command;
  std::vector<std::string> restart_arguments{};  // behind those, when it is started again
};

struct SupervisorOptions {
  bool restart = false;
  std::uint64_t restart_after_ms = 2000;
  std::uint32_t silent_starts_max = 6;
  std::uint64_t restart_after_max_ms = 60'000;  // and who lived as long waits as at first
  std::uint64_t refresh_ms = 1000;
  std::uint64_t one_interrupt_ms = 1000;  // what comes so soon after the first signal is the first
};

class SwarmSupervisor {
 public:
  // `display` must outlive this.
  SwarmSupervisor(std::vector<PeerLaunch> launches, const SupervisorOptions& options,
                  ProgressDisplay& display);

  Status run();

  std::span<const ChildView> peers() const noexcept { return views_; }
  bool failed(std::size_t peer) const { return children_[peer].failed; }
  // What a signal does; also for a caller's own timer in tests.
  void interrupt();

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process;  // null: not running
    bool started = false, spoke = false;    // at least once
    bool failed = false;
    bool bad_line_told = false;
    std::uint64_t started_at_ms = 0,
                  restart_at_ms = 0;  // of the loop's clock; 0: no restart is due
    std::uint32_t silent_starts = 0;
    std::uint64_t pause_ms = 0;   // before the next restart
    std::uint64_t log_begin = 0;  // of its last start
  };
  static void on_signal(uv_signal_t* handle, int number);
  static void on_tick(uv_timer_t* handle);

  Status start(std::size_t peer);
  void start_timers();
  void on_line(std::size_t peer, std::string_view line);
  void on_exit(std::size_t peer, const ChildExit& exit);
  void restart_later(Child& child);
  void tell_failure(std::size_t peer, const ChildExit& exit);
  void restart_due();
  void stop_if_over();

  const std::vector<PeerLaunch> launches_;
  const SupervisorOptions options_;
  ProgressDisplay& display_;
  std::vector<ChildView> views_;
  UvLoop loop_;  // before everything that has handles in it
  std::vector<Child> children_;
  UvHandle<uv_timer_t> refresh_, restarts_;
  std::vector<UvHandle<uv_signal_t>> signals_;
  std::uint32_t interrupts_ = 0;
  std::uint64_t interrupted_at_ms_ = 0;  // first, of the loop's clock
};

}  // namespace starling::peer

#include "peer/swarm/swarm_supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "peer/io/hangup.h"

namespace starling::peer {

namespace {

constexpr std::size_t kLogLinesTold = 8;
constexpr std::uint64_t kRestartCheckMs = 100;

}  // namespace

SwarmSupervisor::SwarmSupervisor(std::vector<PeerLaunch> launches, const SupervisorOptions& options,
                                 ProgressDisplay& display)
    : launches_(std::move(launches)), options_(options), display_(display) {
  for (const PeerLaunch& launch : launches_) {
    ChildView view;
    view.name = launch.name;
    views_.push_back(std::move(view));
  }
  children_.resize(launches_.size());
}

Status SwarmSupervisor::run() {
  start_timers();
  for (std::size_t peer = 0; peer < launches_.size(); ++peer) {
    Status started = start(peer);
    if (!started.ok()) {
      children_.clear();
      return std::move(started).error().with_context(launches_[peer].name);
    }
  }
  stop_if_over();
  uv_run(loop_.get(), UV_RUN_DEFAULT);
  // From here on a signal means what it means to any other program.
  signals_.clear();
  refresh_.reset();
  restarts_.reset();
  return ok_status();
}

void SwarmSupervisor::start_timers() {
  const auto make_timer = [this](std::uint64_t period_ms) {
    UvHandle<uv_timer_t> timer(new uv_timer_t);
    STARLING_ASSERT(uv_timer_init(loop_.get(), timer.get()) == 0);
    timer->data = this;
    STARLING_ASSERT(uv_timer_start(timer.get(), &on_tick, period_ms, period_ms) == 0);
    return timer;
  };
  refresh_ = make_timer(options_.refresh_ms);
  if (options_.restart) restarts_ = make_timer(kRestartCheckMs);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (number == SIGHUP && hangup_is_ignored()) continue;
    UvHandle<uv_signal_t> handle(new uv_signal_t);
    STARLING_ASSERT(uv_signal_init(loop_.get(), handle.get()) == 0);
    handle->data = this;
    STARLING_ASSERT(uv_signal_start(handle.get(), &on_signal, number) == 0);
    signals_.push_back(std::move(handle));
  }
}

Status SwarmSupervisor::start(std::size_t peer) {
  ChildView& view = views_[peer];
  view.state = "starting";
  view.running = true;
  view.first.reset();
  view.latest.reset();
  Child& child = children_[peer];
  child.started_at_ms = uv_now(loop_.get());
  ++child.silent_starts;
  child.restart_at_ms = 0;
  child.failed = false;
  ChildCommand command = launches_[peer].command;
  if (std::exchange(child.started, true)) {
    const std::vector<std::string>& more = launches_[peer].restart_arguments;
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  }
  auto process = ChildProcess::start(
      loop_, command,
      {.on_line = [this, peer](std::string_view line) { on_line(peer, line); },
       .on_exit = [this, peer](const ChildExit& exit) { on_exit(peer, exit); }});
  if (!process.ok()) return std::move(process).error();
  child.process = std::move(process).value();
  child.log_begin = child.process->log_begin();
  return ok_status();
}

void SwarmSupervisor::on_line(std::size_t peer, std::string_view line) {
  auto status = parse_status(line);
  if (!status.ok()) {
    // Once: a peer that prints something else will go on doing so.
    if (!std::exchange(children_[peer].bad_line_told, true)) {
      display_.note(views_[peer].name + ": " + status.error().message());
    }
    return;
  }
  ChildView& view = views_[peer];
  view.latest = std::move(status).value();
  children_[peer].spoke = true;
  children_[peer].silent_starts = 0;
  if (!view.first) view.first = view.latest;
}

void SwarmSupervisor::on_exit(std::size_t peer, const ChildExit& exit) {
  Child& child = children_[peer];
  child.process.reset();
  views_[peer].running = false;
  views_[peer].state = "ended";
  if (!exit.clean()) {
    child.failed = true;
    views_[peer].state = "failed";
    tell_failure(peer, exit);
    const bool hope = child.spoke && child.silent_starts < options_.silent_starts_max;
    if (options_.restart && interrupts_ == 0 && hope) {
      restart_later(child);
      views_[peer].state = "restarts";
    }
  }
  stop_if_over();
}

// What ended it may not be over in two seconds: the memory of a process that was killed, a device.
void SwarmSupervisor::restart_later(Child& child) {
  const std::uint64_t at_ms = uv_now(loop_.get());
  const bool lasted = at_ms - child.started_at_ms >= options_.restart_after_max_ms;
  if (lasted || child.pause_ms == 0) child.pause_ms = options_.restart_after_ms;
  child.restart_at_ms = at_ms + child.pause_ms;
  child.pause_ms = std::min(2 * child.pause_ms, options_.restart_after_max_ms);
}

void SwarmSupervisor::tell_failure(std::size_t peer, const ChildExit& exit) {
  const PeerLaunch& launch = launches_[peer];
  const std::vector<std::string> lines = last_lines(
      launch.command.log, {.lines_max = kLogLinesTold, .from = children_[peer].log_begin});
  const std::string ended = fmt::format("{} ended: {}.", launch.name, describe(exit));
  const std::string log = launch.command.log.string();
  display_.note(lines.empty() ? fmt::format("{} It left nothing in {}", ended, log)
                              : fmt::format("{} The end of {}:", ended, log));
  for (const std::string& line : lines) display_.note("  " + line);
}

void SwarmSupervisor::restart_due() {
  for (std::size_t peer = 0; peer < children_.size(); ++peer) {
    const std::uint64_t at = children_[peer].restart_at_ms;
    if (at == 0 || uv_now(loop_.get()) < at) continue;
    display_.note(launches_[peer].name + " is started again.");
    Status started = start(peer);
    if (started.ok()) continue;
    display_.note(started.error().message());
    children_[peer].failed = true;
    views_[peer].running = false;
    views_[peer].state = "failed";
    stop_if_over();
  }
}

void SwarmSupervisor::interrupt() {
  const std::uint64_t at_ms = uv_now(loop_.get());
  if (interrupts_ > 0 && at_ms - interrupted_at_ms_ < options_.one_interrupt_ms) return;
  if (interrupts_ == 0) interrupted_at_ms_ = at_ms;
  const int number = interrupts_++ == 0 ? SIGINT : SIGKILL;
  display_.note(number == SIGINT
                    ? "Stopping: the peers save their state. Again, in a second, to kill them."
                    : "Killing the peers.");
  for (Child& child : children_) {
    if (child.process) child.process->send_signal(number);
    child.restart_at_ms = 0;
  }
  stop_if_over();
}

void SwarmSupervisor::stop_if_over() {
  for (const Child& child : children_) {
    if (child.process || child.restart_at_ms != 0) return;
  }
  uv_stop(loop_.get());
}

void SwarmSupervisor::on_signal(uv_signal_t* handle, int number) {
  auto& self = *static_cast<SwarmSupervisor*>(handle->data);
  if (number == SIGHUP && self.interrupts_ > 0) return;
  self.interrupt();
}

void SwarmSupervisor::on_tick(uv_timer_t* handle) {
  auto& self = *static_cast<SwarmSupervisor*>(handle->data);
  if (handle == self.restarts_.get()) {
    self.restart_due();
  } else {
    self.display_.show(self.views_);
  }
}

}  // namespace starling::peer

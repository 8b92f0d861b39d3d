// ThreadTeam: threads that share out the tasks of one computation: the caller and its helpers.
//
// run() gives each worker an equal share of the tasks, neighbours together, and returns when all
// are done; who is done with its own takes from the end of another's. So where run after run goes
// over the same rows, a processor mostly finds in its own cache what it wrote before. run() never
// waits for a helper that holds no task: one that the system does not run costs nothing but its
// help. What a task wrote is visible after run(), and to no task of the same run. Nothing allocates
// after construction; a body must not throw (the process ends) nor call run() itself.
//
// Between runs, helpers look for work for some tens of microseconds, so that a run that follows
// closely costs no system call, and then sleep; the caller waits for stragglers in the same way. A
// team with more threads than processors to run on sleeps at once.
//
// Thread: any one at a time calls run(), and takes part as worker 0. Helpers are named team-1,
// team-2 and so on, and end with the team.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace starling {

class ThreadTeam {
 public:
  // `threads` >= 1. Helper i is pinned to processors[i], if there are any (then one per thread);
  // the caller pins itself, see pin_caller(). Where the system refuses a thread or a processor, the
  // log says so, and the team is smaller or unpinned.
  explicit ThreadTeam(int threads, std::span<const int> processors = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return size_; }

  // Pins the calling thread to processors[0]; nothing without processors.
  void pin_caller() const;

  // body(task, worker) for every task in [0, tasks); worker < size(). At most 2^31 - 1 tasks.
  template <std::invocable<std::int64_t, int> Body>
  void run(std::int64_t tasks, const Body& body) noexcept {
    share_out({&body, [](const void* object, std::int64_t task,
                         int worker) { (*static_cast<const Body*>(object))(task, worker); }},
              tasks);
  }

 private:
  struct BodyRef {
    const void* object = nullptr;
    void (*call)(const void* object, std::int64_t task, int worker) = nullptr;
  };

  void share_out(BodyRef body, std::int64_t tasks) noexcept;
  void help(int worker) noexcept;
  bool take_tasks(int worker) noexcept;
  void await_stragglers() noexcept;

  const std::vector<int> processors_;
  int size_ = 1;
  int spins_ = 0;

  // Tasks of a worker that nobody has taken yet.
  class alignas(64) Share {
   public:
    void fill(std::uint32_t first, std::uint32_t end) noexcept;
    std::optional<std::uint32_t> take_first() noexcept;
    std::optional<std::uint32_t> take_last() noexcept;

   private:
    std::atomic<std::uint64_t> open_{0};  // the first in the lower half, the end in the upper
  };

  // Of the run under way. Written while no task is open, read by whoever has taken one.
  BodyRef body_;

  std::vector<Share> shares_;  // of each worker
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<std::uint32_t> runs_{0};  // what helpers wait on
  std::atomic<int> sleepers_{0};
  std::atomic<bool> ends_{false};

  std::vector<std::thread> helpers_;
};

}  // namespace starling

#include "base/thread_team.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/this_thread.h"

namespace starling {

namespace {

// One task on every thread of the team: each waits for all others, so that none gets a second.
template <class Body>
void on_every_thread(ThreadTeam& team, const Body& body) {
  std::atomic<int> arrived{0};
  team.run(team.size(), [&](std::int64_t, int worker) {
    ++arrived;
    while (arrived < team.size()) std::this_thread::yield();
    body(worker);
  });
}

}  // namespace

TEST_CASE("every task runs once, whatever the numbers of tasks and threads") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadTeam team(threads);
    REQUIRE(team.size() == threads);
    for (const std::int64_t tasks : {0, 1, 2, 7, 1000}) {
      CAPTURE(threads);
      CAPTURE(tasks);
      std::vector<int> runs(static_cast<std::size_t>(tasks), 0);
      std::atomic<bool> strange_worker{false};
      team.run(tasks, [&](std::int64_t task, int worker) {
        ++runs[static_cast<std::size_t>(task)];
        if (worker < 0 || worker >= threads) strange_worker = true;
      });
      CHECK(runs == std::vector<int>(static_cast<std::size_t>(tasks), 1));
      CHECK(!strange_worker);
    }
  }
}

TEST_CASE("all threads of a team work at the same time, the caller as worker 0") {
  ThreadTeam team(3);
  std::array<std::atomic<int>, 3> tasks{};
  std::atomic<pthread_t> first{};
  for (int run = 0; run < 100; ++run) {
    on_every_thread(team, [&](int worker) {
      ++tasks[static_cast<std::size_t>(worker)];
      if (worker == 0) first = ::pthread_self();
    });
  }
  for (const auto& count : tasks) CHECK(count == 100);
  CHECK(::pthread_equal(first, ::pthread_self()));
}

TEST_CASE("run after run, a worker that keeps up gets the same tasks, neighbours") {
  ThreadTeam team(3);
  for (int run = 0; run < 100; ++run) {
    std::array<int, 7> workers{};
    std::array<std::atomic<bool>, 3> began{};
    team.run(7, [&](std::int64_t task, int worker) {
      workers[static_cast<std::size_t>(task)] = worker;
      // Nobody takes a second task before all have a first.
      began[static_cast<std::size_t>(worker)] = true;
      while (!began[0] || !began[1] || !began[2]) std::this_thread::yield();
    });
    CHECK(workers[0] == 0);
    CHECK(workers[2] == 1);
    CHECK(workers[4] == 2);
  }
}

TEST_CASE("one task stays with the caller") {
  ThreadTeam team(2);
  for (int run = 0; run < 1000; ++run) {
    team.run(1, [](std::int64_t, int worker) { REQUIRE(worker == 0); });
  }
}

TEST_CASE("a late helper never meets a run that is over") {
  // Runs as short as this end before some helpers look; their bodies lie on the stack and differ.
  for (const int threads : {2, 4}) {
    ThreadTeam team(threads);
    for (std::int64_t run = 0; run < 50000; ++run) {
      std::array<std::int64_t, 5> out{};
      const std::int64_t tasks = 2 + run % 4;
      team.run(tasks, [&out, run](std::int64_t task, int) {
        out[static_cast<std::size_t>(task)] = run * 10 + task;
      });
      std::array<std::int64_t, 5> expected{};
      for (std::int64_t task = 0; task < tasks; ++task) {
        expected[static_cast<std::size_t>(task)] = run * 10 + task;
      }
      REQUIRE(out == expected);
      if (run % 64 == 0) std::this_thread::yield();
    }
  }
}

TEST_CASE("helpers that sleep are woken, and so is a caller that waits for them") {
  ThreadTeam team(static_cast<int>(allowed_processors().size()) +
                  1);  // more than can run: no spinning
  for (int run = 0; run < 500; ++run) {
    std::atomic<int> met{0};
    on_every_thread(team, [&](int worker) {
      if (worker != 0) std::this_thread::yield();
      ++met;
    });
    REQUIRE(met == team.size());
  }
}

// The thread sanitizer puts signals off until the thread calls the C library.
#if !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<bool> held{false}, released{false};

void hold_thread(int) {
  held = true;
  while (!released) ::sched_yield();
}

}  // namespace

TEST_CASE("a helper that the system does not run delays nobody") {
  struct sigaction action {};
  action.sa_handler = hold_thread;
  struct sigaction before {};
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  ThreadTeam team(2);
  std::atomic<pthread_t> helper{};
  on_every_thread(team, [&](int worker) {
    if (worker == 1) helper = ::pthread_self();
  });
  REQUIRE(::pthread_kill(helper, SIGUSR1) == 0);
  while (!held) std::this_thread::yield();
  for (int run = 0; run < 100; ++run) {
    std::vector<int> workers(50, -1);
    team.run(50, [&](std::int64_t task, int worker) {
      workers[static_cast<std::size_t>(task)] = worker;
    });
    REQUIRE(workers == std::vector<int>(50, 0));
  }
  released = true;
  std::atomic<int> met{0};
  on_every_thread(team, [&](int) { ++met; });  // and it helps again
  CHECK(met == 2);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

#endif

TEST_CASE("helpers have names, and the processors they were given") {
  const std::vector<int> allowed = allowed_processors();
  const std::vector<int> processors = {allowed.front(), allowed.back()};
  ThreadTeam team(2, processors);
  std::array<std::vector<int>, 2> found;
  std::string name;
  on_every_thread(team, [&](int worker) {
    if (worker == 1) {
      char text[16] = {};
      ::pthread_getname_np(::pthread_self(), text, sizeof(text));
      name = text;
    }
    found[static_cast<std::size_t>(worker)] = allowed_processors();
  });
  CHECK(name == "team-1");
  CHECK(found[0] == allowed);
  CHECK(found[1] == std::vector<int>{allowed.back()});
  std::jthread caller([&] {
    team.pin_caller();
    found[0] = allowed_processors();
  });
  caller.join();
  CHECK(found[0] == std::vector<int>{allowed.front()});
}

}  // namespace starling

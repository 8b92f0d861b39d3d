#include "base/thread_team.h"

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>

#include "base/assert.h"
#include "base/log.h"
#include "base/this_thread.h"

namespace starling {

namespace {

// Pauses while waiting: 10 to 50 us, as long a pause as the processor makes.
constexpr int kSpins = 1000;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm("yield" ::: "memory");
#endif
}

template <class Condition>
bool spin_until(int spins, const Condition& condition) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    pause();
  }
  return condition();
}

bool have_room(int threads, std::vector<int> processors) {
  if (processors.empty()) processors = allowed_processors();
  std::sort(processors.begin(), processors.end());
  const auto end = std::unique(processors.begin(), processors.end());
  return processors.empty() || end - processors.begin() >= threads;
}

}  // namespace

void ThreadTeam::Share::fill(std::uint32_t first, std::uint32_t end) noexcept {
  open_.store(std::uint64_t{end} << 32 | first, std::memory_order_release);
}

std::optional<std::uint32_t> ThreadTeam::Share::take_first() noexcept {
  std::uint64_t open = open_.load(std::memory_order_relaxed);
  while (static_cast<std::uint32_t>(open) < open >> 32) {
    if (open_.compare_exchange_weak(open, open + 1, std::memory_order_acquire)) {
      return static_cast<std::uint32_t>(open);
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ThreadTeam::Share::take_last() noexcept {
  std::uint64_t open = open_.load(std::memory_order_relaxed);
  while (static_cast<std::uint32_t>(open) < open >> 32) {
    const std::uint64_t less = open - (std::uint64_t{1} << 32);
    if (open_.compare_exchange_weak(open, less, std::memory_order_acquire)) {
      return static_cast<std::uint32_t>(less >> 32);
    }
  }
  return std::nullopt;
}

ThreadTeam::ThreadTeam(int threads, std::span<const int> processors)
    : processors_(processors.begin(), processors.end()),
      shares_(static_cast<std::size_t>(threads)) {
  STARLING_ASSERT(threads >= 1);
  STARLING_ASSERT(processors.empty() || processors.size() == static_cast<std::size_t>(threads));
  spins_ = have_room(threads, processors_) ? kSpins : 0;
  helpers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (; size_ < threads; ++size_) helpers_.emplace_back([this, i = size_] { help(i); });
  } catch (const std::system_error& error) {
    log_warning("the system gives {} threads of {}: {}", size_, threads, error.what());
  }
}

ThreadTeam::~ThreadTeam() {
  ends_.store(true);
  runs_.fetch_add(1);
  runs_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::pin_caller() const {
  if (!processors_.empty()) keep_this_thread_on({&processors_.front(), 1});
}

void ThreadTeam::share_out(BodyRef body, std::int64_t tasks) noexcept {
  STARLING_ASSERT(tasks <= std::numeric_limits<std::int32_t>::max());
  if (size_ == 1 || tasks <= 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body.call(body.object, task, 0);
    return;
  }
  STARLING_ASSERT(unfinished_.load(std::memory_order_relaxed) == 0);
  body_ = body;
  unfinished_.store(static_cast<std::uint32_t>(tasks), std::memory_order_relaxed);
  for (std::int64_t worker = 0; worker < size_; ++worker) {
    shares_[static_cast<std::size_t>(worker)].fill(
        static_cast<std::uint32_t>(tasks * worker / size_),
        static_cast<std::uint32_t>(tasks * (worker + 1) / size_));
  }
  // In this order, against the helper's: either it sees the new run, or we see it sleep.
  runs_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) runs_.notify_all();
  take_tasks(0);
  await_stragglers();
}

// A late helper cannot harm the next run: whoever has taken a task reads the body of the run that
// the task belongs to, because that run does not end before it, and who has taken none reads
// nothing.
bool ThreadTeam::take_tasks(int worker) noexcept {
  std::uint32_t done = 0;
  const auto work = [&](std::uint32_t task) {
    body_.call(body_.object, task, worker);
    ++done;
  };
  const auto own = static_cast<std::size_t>(worker);
  while (const auto task = shares_[own].take_first()) work(*task);
  for (std::size_t i = 1; i < shares_.size(); ++i) {
    Share& other = shares_[(own + i) % shares_.size()];
    while (const auto task = other.take_last()) work(*task);
  }
  if (done == 0) return false;
  const bool last = unfinished_.fetch_sub(done, std::memory_order_seq_cst) == done;
  if (last && caller_sleeps_.load(std::memory_order_seq_cst)) unfinished_.notify_one();
  return true;
}

void ThreadTeam::await_stragglers() noexcept {
  const auto all_done = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_until(spins_, all_done)) return;
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  while (const std::uint32_t left = unfinished_.load(std::memory_order_seq_cst)) {
    unfinished_.wait(left, std::memory_order_seq_cst);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void ThreadTeam::help(int worker) noexcept {
  name_this_thread(("team-" + std::to_string(worker)).c_str());
  if (!processors_.empty()) {
    keep_this_thread_on({&processors_[static_cast<std::size_t>(worker)], 1});
  }
  while (true) {  // runs_ is read before work is looked for: a run in between is not missed
    const std::uint32_t seen = runs_.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_acquire)) return;
    if (take_tasks(worker)) continue;
    const auto called = [&] { return runs_.load(std::memory_order_acquire) != seen; };
    if (spin_until(spins_, called)) continue;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    runs_.wait(seen, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace starling

#include "tests/support/cuda_on_host.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARLING_SANITIZED_FIBERS 1
#else
#define STARLING_SANITIZED_FIBERS 0
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace starling::cuda_on_host {

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kSharedAlignment = 1024;

// A place to go on from. Sanitizers follow swapcontext, which asks the system for each switch;
// without them a long jump does the same many times faster.
struct Context {
  ucontext_t saved{};
  jmp_buf jump{};
  bool has_run = false;
};

__attribute__((noinline)) void switch_to(Context& from, Context& to) {
  if (STARLING_SANITIZED_FIBERS) {
    swapcontext(&from.saved, &to.saved);
    return;
  }
  from.has_run = true;
  if (_setjmp(from.jump) != 0) return;
  if (to.has_run) _longjmp(to.jump, 1);
  setcontext(&to.saved);
}

__attribute__((noinline)) void start_at(Context& context, std::byte* stack, void (*function)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = stack;
  context.saved.uc_stack.ss_size = kStackBytes;
  context.saved.uc_link = nullptr;
  makecontext(&context.saved, function, 0);
  context.has_run = false;
}

struct Copy {
  std::byte* target;
  const std::byte* source;
  std::size_t bytes, size;  // read, written
};

enum class State : std::uint8_t { kReady, kInWarp, kAtBarrier, kLeft };

struct Fiber {
  Context context;
  std::unique_ptr<std::byte[]> stack;
  bool is_whole = false;  // waits at the start or the end of a body
  State state = State::kLeft;
  unsigned warp_calls = 0;
  std::vector<Copy> copies;              // not committed yet
  std::deque<std::vector<Copy>> groups;  // committed, the oldest first
};

struct Warp {
  const char* operation = nullptr;
  unsigned arrived = 0;
  // Of this call and of the one before, which slow lanes may still read.
  std::byte given[2][kWarpLanes * kLaneBytes];
};

class Machine {
 public:
  void run(const Grid& grid, const std::function<void()>& body);
  void set_order(Order order) { order_ = order; }

  [[noreturn]] void fail(const char* what);
  void barrier() { leave(State::kAtBarrier); }
  const std::byte* meet_warp(const char* operation, const void* given, std::size_t bytes);
  void* dynamic_shared() { return dynamic_.get(); }
  void* static_shared(const std::string& place, std::size_t bytes);
  bool is_shared(const void* data, std::size_t bytes) const;
  void copy_async(const Copy& copy);
  void commit_copies();
  void wait_copies(std::size_t pending);

 private:
  struct Free {
    void operator()(std::byte* data) const { ::operator delete[](data, kSharedAlign); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  struct Shared {
    Memory memory;
    std::size_t bytes;
  };
  static constexpr std::align_val_t kSharedAlign{kSharedAlignment};

  static Memory shared_memory(std::size_t bytes);
  static void fiber_main();
  void prepare_fibers();
  void run_block();
  void run_warp(unsigned warp);
  void resume(unsigned thread);
  void leave(State state);
  void release_barrier();
  void judge_what_waits();
  std::string place() const;
  bool forward() const { return order_ == Order::kForward; }

  Order order_ = Order::kForward;
  Grid grid_;
  const std::function<void()>* body_ = nullptr;
  Context scheduler_;
  std::deque<Fiber> fibers_;  // stay where they are: contexts point into themselves
  std::vector<Warp> warps_;
  unsigned current_ = 0;
  std::string error_;
  Memory dynamic_;
  std::map<std::string, Shared> static_;
};

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

void Machine::run(const Grid& grid, const std::function<void()>& body) {
  grid_ = grid;
  body_ = &body;
  error_.clear();
  if (grid.threads == 0 || grid.threads > 1024 || grid.threads % kWarpLanes != 0) {
    throw Error(std::string(grid.kernel) + ": blocks of " + std::to_string(grid.threads) +
                " threads, not of 1 to 32 warps");
  }
  prepare_fibers();
  blockDim = {grid.threads, 1, 1};
  gridDim = grid.blocks;
  const unsigned count = grid.blocks.x * grid.blocks.y * grid.blocks.z;
  if (count == 0) throw Error(std::string(grid.kernel) + ": a grid of no blocks");
  for (unsigned i = 0; i < count; ++i) {
    const unsigned block = forward() ? i : count - 1 - i;
    blockIdx = {block % grid.blocks.x, block / grid.blocks.x % grid.blocks.y,
                block / grid.blocks.x / grid.blocks.y};
    run_block();
    if (error_.empty()) continue;
    for (Fiber& fiber : fibers_) fiber.is_whole = false;
    throw Error(error_);
  }
}

Machine::Memory Machine::shared_memory(std::size_t bytes) {
  Memory memory(new (kSharedAlign) std::byte[bytes]);
  std::memset(memory.get(), 0xFF, bytes);
  return memory;
}

void Machine::prepare_fibers() {
  if (fibers_.size() < grid_.threads) fibers_.resize(grid_.threads);
  for (Fiber& fiber : fibers_) {
    if (fiber.stack == nullptr) fiber.stack.reset(new std::byte[kStackBytes]);
    if (!fiber.is_whole) start_at(fiber.context, fiber.stack.get(), &Machine::fiber_main);
    fiber.is_whole = true;
  }
}

// Serves one block after the other, until it is thrown away in the middle of one.
void Machine::fiber_main() {
  while (true) {
    (*machine().body_)();
    machine().leave(State::kLeft);
  }
}

void Machine::run_block() {
  dynamic_ = shared_memory(grid_.shared_bytes);
  static_.clear();
  warps_.assign(grid_.threads / kWarpLanes, {});
  for (unsigned thread = 0; thread < grid_.threads; ++thread) {
    Fiber& fiber = fibers_[thread];
    fiber.state = State::kReady;
    fiber.warp_calls = 0;
    fiber.copies.clear();
    fiber.groups.clear();
  }
  const auto warps = static_cast<unsigned>(warps_.size());
  bool runs = true;
  while (runs && error_.empty()) {
    for (unsigned i = 0; i < warps && error_.empty(); ++i) run_warp(forward() ? i : warps - 1 - i);
    runs = false;
    for (unsigned thread = 0; thread < grid_.threads; ++thread) {
      runs |= fibers_[thread].state == State::kAtBarrier;
    }
    if (error_.empty()) judge_what_waits();
    if (error_.empty() && runs) release_barrier();
  }
}

// Until all its lanes wait for other warps or have left.
void Machine::run_warp(unsigned warp) {
  bool ran = true;
  while (ran && error_.empty()) {
    ran = false;
    for (unsigned i = 0; i < kWarpLanes && error_.empty(); ++i) {
      const unsigned thread = warp * kWarpLanes + (forward() ? i : kWarpLanes - 1 - i);
      if (fibers_[thread].state != State::kReady) continue;
      resume(thread);
      ran = true;
    }
  }
}

void Machine::resume(unsigned thread) {
  current_ = thread;
  threadIdx = {thread, 0, 0};
  switch_to(scheduler_, fibers_[thread].context);
}

void Machine::leave(State state) {
  Fiber& fiber = fibers_[current_];
  fiber.state = state;
  switch_to(fiber.context, scheduler_);
}

void Machine::release_barrier() {
  for (unsigned thread = 0; thread < grid_.threads; ++thread) {
    fibers_[thread].state = State::kReady;
  }
}

// Every thread waits or has left: all must wait at the barrier, or all have left.
void Machine::judge_what_waits() {
  unsigned count[4] = {};
  for (unsigned thread = 0; thread < grid_.threads; ++thread) {
    ++count[static_cast<std::size_t>(fibers_[thread].state)];
  }
  const unsigned barrier = count[static_cast<std::size_t>(State::kAtBarrier)];
  const unsigned in_warp = count[static_cast<std::size_t>(State::kInWarp)];
  if (in_warp > 0) {
    for (const Warp& warp : warps_) {
      if (warp.arrived == 0) continue;
      error_ = place() + ": only " + std::to_string(warp.arrived) + " lanes of a warp came to " +
               warp.operation;
    }
  } else if (barrier > 0 && barrier < grid_.threads) {
    error_ = place() + ": only " + std::to_string(barrier) + " of " +
             std::to_string(grid_.threads) + " threads came to a barrier";
  }
}

std::string Machine::place() const {
  return std::string(grid_.kernel) + ", block (" + std::to_string(blockIdx.x) + ", " +
         std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ")";
}

void Machine::fail(const char* what) {
  if (error_.empty()) {
    error_ = place() + ", thread " + std::to_string(current_) + ": " + what;
  }
  leave(State::kLeft);
  __builtin_unreachable();  // nobody resumes what has left
}

const std::byte* Machine::meet_warp(const char* operation, const void* given, std::size_t bytes) {
  Warp& warp = warps_[current_ / kWarpLanes];
  Fiber& fiber = fibers_[current_];
  if (bytes > kLaneBytes) fail("a lane gives too much");
  if (warp.arrived > 0 && warp.operation != operation &&
      std::strcmp(warp.operation, operation) != 0) {
    fail("lanes of one warp are at different operations");
  }
  warp.operation = operation;
  std::byte* slots = warp.given[fiber.warp_calls++ % 2];
  if (bytes > 0) std::memcpy(slots + current_ % kWarpLanes * kLaneBytes, given, bytes);
  if (++warp.arrived < kWarpLanes) {
    leave(State::kInWarp);
    return slots;
  }
  warp.arrived = 0;
  const unsigned first = current_ / kWarpLanes * kWarpLanes;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (first + lane != current_) fibers_[first + lane].state = State::kReady;
  }
  return slots;
}

void* Machine::static_shared(const std::string& place, std::size_t bytes) {
  auto found = static_.find(place);
  if (found == static_.end()) {
    found = static_.emplace(place, Shared{shared_memory(bytes), bytes}).first;
  }
  return found->second.memory.get();
}

bool Machine::is_shared(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  const auto holds = [&](const std::byte* memory, std::size_t size) {
    return std::less_equal<>()(memory, at) && std::less_equal<>()(at + bytes, memory + size);
  };
  if (holds(dynamic_.get(), grid_.shared_bytes)) return true;
  for (const auto& [place, shared] : static_) {
    if (holds(shared.memory.get(), shared.bytes)) return true;
  }
  return false;
}

void finish(const Copy& copy) {
  std::memset(copy.target, 0, copy.size);
  if (copy.bytes > 0) std::memcpy(copy.target, copy.source, copy.bytes);
}

void Machine::copy_async(const Copy& copy) {
  if (forward()) {
    fibers_[current_].copies.push_back(copy);
  } else {
    finish(copy);
  }
}

void Machine::commit_copies() {
  Fiber& fiber = fibers_[current_];
  fiber.groups.push_back(std::move(fiber.copies));
  fiber.copies.clear();
}

void Machine::wait_copies(std::size_t pending) {
  auto& groups = fibers_[current_].groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) finish(copy);
  }
}

}  // namespace

void set_order(Order order) { machine().set_order(order); }

void run(const Grid& grid, const std::function<void()>& body) { machine().run(grid, body); }

void fail(const char* what) { machine().fail(what); }

const std::byte* meet_warp(const char* operation, const void* given, std::size_t bytes) {
  return machine().meet_warp(operation, given, bytes);
}

void* dynamic_shared() { return machine().dynamic_shared(); }

void* static_shared(const char* function, const char* name, std::size_t bytes) {
  return machine().static_shared(std::string(function) + " " + name, bytes);
}

bool is_shared(const void* data, std::size_t bytes) { return machine().is_shared(data, bytes); }

void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t size) {
  require(is_shared(shared, size), "a copy past shared memory");
  require(reinterpret_cast<std::uintptr_t>(shared) % size == 0, "a copy to a misaligned place");
  require(reinterpret_cast<std::uintptr_t>(global) % size == 0, "a copy from a misaligned place");
  require(bytes <= size, "a copy of more than it has place for");
  machine().copy_async(
      {static_cast<std::byte*>(shared), static_cast<const std::byte*>(global), bytes, size});
}

void commit_copies() { machine().commit_copies(); }

void wait_copies(std::size_t pending) { machine().wait_copies(pending); }

}  // namespace starling::cuda_on_host

void __syncthreads() { starling::cuda_on_host::machine().barrier(); }

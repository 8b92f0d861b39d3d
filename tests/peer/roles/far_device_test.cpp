// What a GPU would not forgive, on a device that forgives as little: the host never reads device
// memory, no copy is used before its fence, and no memory changes while a lane still has to read
// it.
#include "tests/support/far_device.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <vector>

#include "model/llama.h"
#include "tests/peer/roles/swarm_learns.h"
#include "tests/support/device_floats.h"
#include "tests/support/far_backend.h"
#include "tests/support/pumped_swarm.h"
#include "tests/support/trainer_bench.h"

namespace starling::peer {

using testing::far_backend;
using testing::FarDevice;
using testing::floats_of;
using Bench = testing::TrainerBench;

namespace {

Backend near_backend() { return make_backend("cpu", {.threads = 1}).value(); }

// What becomes of a process that does this: the signal that ends it, or 0.
template <class Deed>
int signal_after(const Deed& deed) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
    ::close(STDERR_FILENO);
    deed();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// What is asked of the lane now comes late: whatever should wait for it, and does not, is before.
void keep_waiting(FarDevice& device, Lane lane, int tasks) {
  for (int i = 0; i < tasks; ++i) device.enqueue(lane, [] {});
}

}  // namespace

TEST_CASE("a far device ends a process that does what a GPU would not bear") {
  FarDevice device(1);
  Buffer far = device.allocate(MemoryKind::kDevice, 64).value();
  Buffer pinned = device.allocate(MemoryKind::kHostPinned, 64).value();
  const auto bytes = far.as<std::byte>();
  const std::span<std::byte> host(static_cast<std::byte*>(pinned.data()), 64);
  std::vector<std::byte> other(64);
  CHECK(signal_after([&] { bytes.data[0] = std::byte{1}; }) == SIGSEGV);
  CHECK(signal_after([&] { other[0] = bytes.data[0]; }) == SIGSEGV);
  CHECK(signal_after([&] { device.near(other.data(), other.size()); }) == SIGABRT);
  CHECK(signal_after([&] {
          device.copy_in(Lane::kCompute, bytes, host);
          host[3] = std::byte{1};
          device.drain();
        }) == SIGABRT);
  CHECK(signal_after([&] {
          device.copy_in(Lane::kCompute, bytes, host);
          device.drain();
          host[3] = std::byte{1};
        }) == 0);
}

TEST_CASE("a copy from a far device is not there before its fence, and lanes overtake each other") {
  FarDevice device(2);
  Buffer far = device.allocate(MemoryKind::kDevice, 8).value();
  Buffer pinned = device.allocate(MemoryKind::kHostPinned, 8).value();
  auto* const host = static_cast<float*>(pinned.data());
  const std::span<std::byte> target(static_cast<std::byte*>(pinned.data()), 8);
  device.copy_out(Lane::kCopyOut, target, far.as<std::byte>());
  const Fence copied = device.record(Lane::kCopyOut);
  CHECK(std::isnan(host[0]));
  while (!device.reached(copied)) continue;
  CHECK(host[0] == 0.0F);

  std::vector<int> order;
  device.enqueue(Lane::kCompute, [&] { order.push_back(1); });
  const Fence computed = device.record(Lane::kCompute);
  device.hold(Lane::kCopyIn, computed);
  device.enqueue(Lane::kCopyIn, [&] { order.push_back(2); });
  device.enqueue(Lane::kCopyOut, [&] { order.push_back(3); });
  device.drain();
  CHECK(order.size() == 3);
  CHECK(std::find(order.begin(), order.end(), 1) < std::find(order.begin(), order.end(), 2));
  CHECK(device.waits() == 0);
  device.copy_out(Lane::kCompute, std::as_writable_bytes(std::span(order)).first(8),
                  far.as<std::byte>());
  CHECK(order[0] == 0);
  CHECK(device.waits() == 1);
}

TEST_CASE("a trainer does the same on a far device, bit for bit, where corrections arrive later") {
  for (const bool exchanges : {false, true}) {
    CAPTURE(exchanges);
    Bench near(near_backend(), exchanges);
    near.corrections_late = exchanges ? 1 : 0;
    near.train();
    CHECK(near.losses.back() < 0.8F * near.losses.front());
    CHECK(near.snapshots.empty() == !exchanges);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed);
      Bench far(far_backend(seed), exchanges);
      auto& device = static_cast<FarDevice&>(*far.backend.device);
      const auto late = static_cast<Lane>(seed % 3);
      far.before_step = [&] { keep_waiting(device, late, 300); };
      far.train();
      CHECK(far.losses == near.losses);
      CHECK(far.norms == near.norms);
      CHECK(far.applied == near.applied);
      CHECK(far.snapshots == near.snapshots);
      CHECK(far.weights() == near.weights());
      CHECK(far.trainer->validate() == near.trainer->validate());
      CHECK(far.slots.free_count() == Bench::kSlots);
    }
  }
}

TEST_CASE("steps, snapshots and corrections never wait for a copy") {
  Bench bench(far_backend(5), true);
  const auto& device = static_cast<const FarDevice&>(*bench.backend.device);
  const std::uint64_t at_start = device.waits();
  bench.train();
  bench.trainer->validate();
  CHECK(bench.applied > 0);
  CHECK(!bench.snapshots.empty());
  CHECK(device.waits() == at_start);
}

TEST_CASE("a correction's slot is free when it is copied, however long its sum must wait") {
  Bench bench(far_backend(10), true);
  auto& device = static_cast<FarDevice&>(*bench.backend.device);
  bench.correct(0, 1.0F);
  bench.trainer->boundary();
  device.drain();
  for (int i = 0; i < 100'000; ++i) device.enqueue(Lane::kCompute, [] {});
  bench.trainer->boundary();
  bench.take();
  CHECK(bench.applied == 1);
  CHECK(bench.slots.free_count() == Bench::kSlots);
}

TEST_CASE("a far slot that leaves at a boundary is back with its correction at the next one") {
  Bench bench(far_backend(11), true);
  auto& device = static_cast<FarDevice&>(*bench.backend.device);
  int step = 0, taken = 0, applied = 0;
  std::vector<int> taken_at(bench.stripes.size(), -1);
  // A mixer that answers at once, while the device computes.
  const auto answer = [&] {
    while (auto parcel = bench.rings.trainer_to_mixer.try_pop()) {
      if (auto* snapshot = std::get_if<Snapshot>(&*parcel)) {
        CHECK(snapshot->stage.steps == static_cast<std::uint64_t>(step));
        taken_at[snapshot->stripe] = step;
        bench.correct(snapshot->stripe, 1e-3F);
        ++taken;
      } else {
        const std::uint32_t stripe = std::get<CorrectionApplied>(*parcel).stripe;
        CHECK(taken_at[stripe] == step - 1);
        ++applied;
      }
    }
  };
  for (; step < 40; ++step) {
    keep_waiting(device, Lane::kCopyOut, 30);  // no snapshot is there at its own boundary
    for (int i = 0; i < 80; ++i) device.enqueue(Lane::kCopyIn, answer);
    bench.trainer->pump();
    while (bench.rings.trainer_to_network.try_pop()) continue;
  }
  CHECK(taken > 10);
  CHECK(applied >= taken - 2);
}

TEST_CASE("a state leaves a far device whole and is restored there") {
  Bench first(far_backend(6), false), second(far_backend(7), false);
  for (int i = 0; i < 5; ++i) first.step();
  CheckpointImage image(first.layout.elements(), false);
  {
    auto& device = static_cast<FarDevice&>(*first.backend.device);
    std::vector<Buffer> pinned;
    for (auto* part : {&image.weights, &image.first_moment, &image.second_moment}) {
      pinned.push_back(device.pin(std::as_writable_bytes(std::span(*part))));
    }
    const std::uint64_t before = device.waits();
    first.trainer->copy_into(image);
    CHECK(device.waits() == before);
    CHECK(std::isnan(image.weights[0]));  // not there yet, and nobody waits for it
    first.step();                         // must not overtake the copy
    device.drain();
  }
  const std::vector<float> copied = image.weights;
  first.trainer->restore(image);
  CHECK(copied == first.weights());
  second.trainer->restore(image);
  for (int i = 0; i < 5; ++i) first.step(), second.step();
  CHECK(first.weights() == second.weights());
}

TEST_CASE("a copy of the state holds up no forward, but whatever writes to the state") {
  Bench bench(far_backend(9), true);
  auto& device = static_cast<FarDevice&>(*bench.backend.device);
  bench.step();
  CheckpointImage image(bench.layout.elements(), false);
  std::vector<Buffer> pinned;
  for (auto* part : {&image.weights, &image.first_moment, &image.second_moment}) {
    pinned.push_back(device.pin(std::as_writable_bytes(std::span(*part))));
  }
  const auto copy_late = [&] {
    keep_waiting(device, Lane::kCopyOut, 100'000);
    bench.trainer->copy_into(image);
  };
  const auto is_copied = [&] { return !std::isnan(image.second_moment[0]); };

  const std::vector<float> first = bench.weights();
  copy_late();
  bench.trainer->validate();
  CHECK(!is_copied());
  bench.correct(0, 1.0F);
  bench.trainer->boundary();  // from here on it is on its way
  bench.trainer->boundary();
  CHECK(bench.weights() != first);
  CHECK(image.weights == first);

  const std::vector<float> second = bench.weights();
  copy_late();
  bench.step();
  CHECK(is_copied());
  CHECK(image.weights == second);
  CHECK(bench.weights() != second);

  bench.correct(0, 1.0F);
  bench.trainer->boundary();
  device.drain();
  keep_waiting(device, Lane::kCompute, 100'000);
  bench.trainer->boundary();  // whose sum comes late
  bench.trainer->copy_into(image);
  for (int i = 0; i < 1000; ++i) device.reached({});  // each lane goes on where it may
  CHECK(!is_copied());
  CHECK(bench.weights() == image.weights);
}

TEST_CASE("a sequence goes on piece by piece on a far device as it does on the CPU") {
  const auto options = testing::small_swarm(1);
  const auto logits_on = [&](Backend backend) {
    const auto layout = model::ParamLayout::plan(options.trainer.model, 1).value();
    const auto params =
        backend.device->allocate(MemoryKind::kDevice, layout.elements() * sizeof(float)).value();
    std::vector<float> weights(layout.elements());
    Rng rng(4);
    for (float& weight : weights) weight = 0.1F * rng.normal();
    testing::put_floats(*backend.device, params.as<float>(), weights);
    auto llama = model::Llama::create(options.trainer.model, layout, {.tokens = 8}, *backend.device,
                                      *backend.layers)
                     .value();
    std::vector<float> results(32);
    {  // Memory that is gone when the device comes to read it.
      const std::vector<std::int32_t> opening{1, 2, 3};
      llama.extend(params.as<float>(), opening);
    }
    std::vector<std::int32_t> next{4};
    llama.extend(params.as<float>(), next);
    next[0] = 5;
    llama.extend(params.as<float>(), next, results);
    const std::vector<std::int32_t> inputs{6, 7}, targets{7, 8};
    results.push_back(
        static_cast<float>(llama.extend_losses(params.as<float>(), {inputs, targets})));
    return results;
  };
  CHECK(logits_on(far_backend(8)) == logits_on(near_backend()));
}

TEST_CASE("a swarm on far devices learns and its peers agree") {
  testing::PumpedOptions options = testing::small_swarm(1);
  options.steps = 100;
  options.trainer.checkpoint_every_steps = 20;
  std::uint64_t seed = 0;
  options.backend = [&seed] { return far_backend(++seed); };
  testing::PumpedSwarm swarm(options);
  const float before = swarm.trainer(0).validate();
  swarm.pump_until(50);
  swarm.kill(2);
  swarm.pump_until(60);
  swarm.restart(2);
  check_learns(swarm, before, 1.05F);
}

}  // namespace starling::peer

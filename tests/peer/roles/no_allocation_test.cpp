// A program of its own, because it replaces operator new: the trainer's path must not allocate once
// it runs. (What BLAS does inside a product with its own allocator is not seen here.)
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "peer/roles/dataset_source.h"
#include "tests/peer/file_steps.h"
#include "tests/support/pumped_swarm.h"

namespace {

bool counting = false;
std::size_t allocations = 0;

// Not inlined: the compiler would see memory of aligned_alloc in the hands of operator delete.
[[gnu::noinline]] void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace starling::peer {

TEST_CASE("a trainer that runs allocates nothing, exchanges and checkpoints included") {
  testing::PumpedOptions options = testing::small_swarm(1);
  options.steps = 120;
  options.trainer.checkpoint_every_steps = 15;
  std::size_t pumps = 0;
  options.before_pump = [&pumps] {
    ++pumps;
    counting = pumps > 4;  // the first step of each peer may still warm things up
  };
  options.after_pump = [] { counting = false; };
  testing::PumpedSwarm swarm(options);
  swarm.run(std::chrono::seconds(5));
  CHECK(pumps > 400);
  CHECK(swarm.core(0).stats().exchanges_completed > 5);
  CHECK(allocations == 0);
  {  // The counter itself can fail.
    counting = true;
    const auto* proof = new int(1);
    counting = false;
    CHECK(allocations == 1);
    delete proof;
  }
}

TEST_CASE("reading batches, hearing news and saving the position allocates nothing") {
  const ScratchFolder folder;
  auto writer = ShardWriter::create(folder / "1.tok",
                                    {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<std::int32_t>(20 * kPartTokensMin, 7)).ok());
  REQUIRE(writer.value().finish().ok());
  const std::vector<std::string> paths{folder.path().string()};
  auto data = Dataset::open(paths, {.vocabulary = 256, .tokens = 64});
  REQUIRE(data.ok());
  Rings rings(4);
  DataMetrics metrics;
  DatasetSource source(data.value(), std::nullopt, reading_plan(data.value(), 64, {}), rings,
                       metrics);
  DataPosition position;
  source.save(position);
  std::vector<std::int32_t> inputs(4 * 64), targets(4 * 64);
  const std::size_t before = allocations;
  counting = true;
  for (std::uint64_t batch = 0; batch < 2000; ++batch) {
    source.training_batch(batch, inputs, targets);
    source.save(position);
    PartNews news{static_cast<std::uint16_t>(batch % 20), {.passes = 3, .claims = 1}};
    if (!rings.parts_to_trainer.try_push(std::move(news))) break;
    while (rings.parts_to_network.try_pop()) continue;
  }
  counting = false;
  CHECK(allocations == before);
  CHECK(metrics.parts_read.value() > 50);
}

}  // namespace starling::peer

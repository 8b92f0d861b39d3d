#include "peer/memory_plan.h"

#include <doctest/doctest.h>

namespace starling::peer {

namespace {

struct Planned {
  explicit Planned(std::int64_t sequences) {
    config.batch = {.sequences = sequences, .tokens = 128};
  }
  std::size_t bytes(std::int64_t micro) const {
    PeerConfig with = config;
    with.micro_batch = micro;
    return plan_memory(with, layout, stripes, model::DType::kF32).total();
  }
  std::int64_t within(double bytes) const {
    const auto available = static_cast<std::uint64_t>(bytes / kMemoryShare) + 1;
    return micro_batch_within(available, config, layout, stripes, model::DType::kF32);
  }

  PeerConfig config;
  model::ParamLayout layout = model::ParamLayout::plan(config.model, 5).value();
  StripeTable stripes{layout};
};

}  // namespace

TEST_CASE("a memory plan names every part and their sum") {
  MemoryPlan plan;
  plan.add("parameters", 3 << 20, true);
  plan.add("slots", 512 << 10);
  CHECK(plan.total() == (3 << 20) + (512 << 10));
  CHECK(plan.device_total() == 3 << 20);
  CHECK(plan.describe() == "parameters 3.0 MiB, slots 0.5 MiB, 3.5 MiB in all");
}

TEST_CASE("a batch in several passes takes less memory, by its activations alone") {
  const Planned planned(12);
  CHECK(planned.bytes(12) ==
        plan_memory(planned.config, planned.layout, planned.stripes, model::DType::kF32).total());
  CHECK(planned.bytes(6) < planned.bytes(12));
  CHECK(planned.bytes(12) - planned.bytes(6) > 6 * (planned.bytes(2) - planned.bytes(1)) / 2);
}

TEST_CASE("the largest part of a batch is taken that fits, and divides it") {
  const Planned planned(12);
  CHECK(micro_batches(12) == std::vector<std::int64_t>{12, 6, 4, 3, 2, 1});
  CHECK(micro_batches(7) == std::vector<std::int64_t>{7, 1});
  for (const std::int64_t micro : micro_batches(12)) {
    CHECK(planned.within(static_cast<double>(planned.bytes(micro))) == micro);
  }
  CHECK(planned.within(static_cast<double>(planned.bytes(12)) - 1024) == 6);
  CHECK(planned.within(0) == 1);
}

TEST_CASE("a start tries what is set, or from what fits to ever smaller parts") {
  Planned planned(4);
  const auto tried = [&](std::optional<std::uint64_t> available) {
    return micro_batches_to_try(available, planned.config, planned.layout, planned.stripes,
                                model::DType::kF32);
  };
  CHECK(tried(std::nullopt) == std::vector<std::int64_t>{4, 2, 1});
  CHECK(tried(std::uint64_t{1} << 40) == std::vector<std::int64_t>{4, 2, 1});
  CHECK(tried(0) == std::vector<std::int64_t>{1});
  planned.config.micro_batch = 2;
  CHECK(tried(0) == std::vector<std::int64_t>{2});
}

TEST_CASE("a start says what of a batch it computes at a time and what that leaves") {
  Planned planned(4);
  planned.config.micro_batch = 2;
  MemoryPlan plan;
  plan.add("all", 3 << 20);
  CHECK(describe_batch(planned.config, plan, std::uint64_t{8} << 20) ==
        "2 of 4 sequences at a time (batch.micro) leave 5.0 MiB of 8.0 MiB free");
  CHECK(describe_batch(planned.config, plan, std::uint64_t{1} << 20) ==
        "2 of 4 sequences at a time (batch.micro) leave 0.0 MiB of 1.0 MiB free");
  CHECK(describe_batch(planned.config, plan, std::nullopt) ==
        "2 of 4 sequences at a time (batch.micro)");
}

}  // namespace starling::peer

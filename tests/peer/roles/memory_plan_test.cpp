#include "peer/roles/memory_plan.h"

#include <doctest/doctest.h>

#include "model/activations.h"
#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

const DeviceNeeds kNeeds = needs_of_cpu(model::Compute::kFp32, 2);

struct Planned {
  explicit Planned(std::int64_t sequences) {
    config.batch = {.sequences = sequences, .tokens = 128};
  }
  std::size_t bytes(std::int64_t micro) const {
    PeerConfig with = config;
    with.micro_batch = micro;
    return plan_memory(with, layout, stripes, kNeeds).total();
  }
  std::int64_t within(double bytes) const {
    const auto available = static_cast<std::uint64_t>(bytes / kMemoryShare) + 1;
    return micro_batch_within(available, config, layout, stripes, kNeeds);
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
  CHECK(plan.describe() == "parameters 3.00 MiB, slots 512 KiB, 3.50 MiB in all");
}

TEST_CASE("a batch in several passes takes less memory, by its activations alone") {
  const Planned planned(12);
  CHECK(planned.bytes(12) ==
        plan_memory(planned.config, planned.layout, planned.stripes, kNeeds).total());
  CHECK(planned.bytes(6) < planned.bytes(12));
  CHECK(planned.bytes(12) - planned.bytes(6) > 6 * (planned.bytes(2) - planned.bytes(1)) / 2);
}

TEST_CASE("what training takes follows its batch, not the context that the model is made for") {
  for (const DeviceNeeds& needs : {kNeeds, needs_of_gpu(model::Compute::kBf16)}) {
    std::string parts[2];
    for (const bool long_context : {false, true}) {
      Planned planned(12);
      planned.config.model.context = long_context ? 4096 : 128;
      planned.layout = model::ParamLayout::plan(planned.config.model, 5).value();
      parts[long_context] =
          plan_memory(planned.config, planned.layout, planned.stripes, needs).describe();
    }
    CHECK(parts[0] == parts[1]);
  }
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

TEST_CASE("a plan counts what the operations take for themselves, and so does what fits") {
  Planned planned(12);
  planned.config.micro_batch = 12;
  const auto plan_of = [&](int threads) {
    return plan_memory(planned.config, planned.layout, planned.stripes,
                       needs_of_cpu(model::Compute::kFp32, threads));
  };
  const auto scratch_of = [](const MemoryPlan& plan) {
    std::size_t bytes = 0;
    for (const MemoryPlan::Part& part : plan.parts)
      bytes += part.name == "scratch" ? part.bytes : 0;
    return bytes;
  };
  const MemoryPlan few = plan_of(2), many = plan_of(64);
  CHECK(scratch_of(few) > 0);
  CHECK(scratch_of(many) - scratch_of(few) == 62 * (scratch_of(plan_of(3)) - scratch_of(few)));
  CHECK(many.total() - few.total() == scratch_of(many) - scratch_of(few));
  CHECK(many.device_total() - few.device_total() == scratch_of(many) - scratch_of(few));
  const auto step = model::step_shape(planned.config.model, {.sequences = 12, .tokens = 128},
                                      planned.layout.elements());
  CHECK(scratch_of(many) == model::cpu_scratch_bytes(model::Compute::kFp32, 64, step));

  planned.config.micro_batch.reset();
  const auto room = static_cast<std::uint64_t>(static_cast<double>(few.total()) / kMemoryShare) + 1;
  const auto within = [&](int threads) {
    return micro_batch_within(room, planned.config, planned.layout, planned.stripes,
                              needs_of_cpu(model::Compute::kFp32, threads));
  };
  CHECK(within(2) == 12);
  CHECK(within(64) < 12);
}

TEST_CASE("what is computed again takes no memory, and auto is what suits the device") {
  Planned planned(12);
  const auto pass = [&](RecomputeChoice choice, const DeviceNeeds& needs) {
    planned.config.recompute = choice;
    return pass_of(planned.config, 4, needs);
  };
  DeviceNeeds of_gpu;
  of_gpu.suited = model::Recompute::kGates;
  of_gpu.large_chunks = true;
  CHECK(pass(RecomputeChoice::kAuto, kNeeds).recompute == model::Recompute::kNorms);
  CHECK(pass(RecomputeChoice::kAuto, of_gpu).recompute == model::Recompute::kGates);
  CHECK(pass(RecomputeChoice::kNorms, of_gpu).recompute == model::Recompute::kNorms);
  const model::BatchShape blocks = pass(RecomputeChoice::kBlocks, of_gpu);
  CHECK(blocks.recompute == model::Recompute::kBlocks);
  CHECK(blocks.sequences == 4);
  CHECK(blocks.tokens == planned.config.batch.tokens);
  CHECK(blocks.large_chunks);

  const auto total = [&](RecomputeChoice choice) {
    planned.config.recompute = choice;
    return plan_memory(planned.config, planned.layout, planned.stripes, kNeeds).total();
  };
  CHECK(total(RecomputeChoice::kBlocks) < total(RecomputeChoice::kNorms));
  CHECK(total(RecomputeChoice::kNorms) < total(RecomputeChoice::kGates));
}

TEST_CASE("processors compute a batch in parts where its activations outweigh the model") {
  struct Shape {
    std::int64_t width, layers, ffn, tokens;
  };
  constexpr Shape kTiny{128, 4, 352, 128}, kSmall{384, 8, 1024, 256}, kLarge{768, 12, 2048, 512};
  const auto wanted = [](const Shape& of, std::int64_t sequences, const DeviceNeeds& needs) {
    PeerConfig config;
    config.batch = {.sequences = sequences, .tokens = of.tokens};
    config.model = {.vocabulary = 256,
                    .width = of.width,
                    .layers = of.layers,
                    .heads = 4,
                    .kv_heads = 4,
                    .ffn = of.ffn,
                    .context = of.tokens};
    const auto layout = model::ParamLayout::plan(config.model, 1).value();
    return wanted_micro_batches(config, layout, needs).front();
  };
  DeviceNeeds needs = needs_of_cpu(model::Compute::kFp32, 2);
  CHECK(wanted(kTiny, 16, needs) == 8);
  CHECK(wanted(kTiny, 96, needs) == 8);
  CHECK(wanted(kTiny, 14, needs) == 14);  // 7 would be too few tokens
  CHECK(wanted(kSmall, 8, needs) == 4);
  CHECK(wanted(kLarge, 2, needs) == 2);
  needs.activations = model::DType::kBf16;
  CHECK(wanted(kTiny, 16, needs) == 8);
  CHECK(wanted(kSmall, 8, needs) == 8);
  needs.in_parts = false;
  CHECK(wanted(kTiny, 96, needs) == 96);
}

TEST_CASE("a start tries what is set, or from what fits to ever smaller parts") {
  Planned planned(4);
  const auto tried = [&](std::optional<std::uint64_t> available) {
    return micro_batches_to_try(available, planned.config, planned.layout, planned.stripes, kNeeds);
  };
  CHECK(tried(std::nullopt).value() == std::vector<std::int64_t>{4, 2, 1});
  CHECK(tried(std::uint64_t{1} << 40).value() == std::vector<std::int64_t>{4, 2, 1});
  CHECK(tried(planned.bytes(1)).value() == std::vector<std::int64_t>{1});
  planned.config.micro_batch = 2;
  CHECK(tried(planned.bytes(2)).value() == std::vector<std::int64_t>{2});
  CHECK(tried(std::nullopt).value() == std::vector<std::int64_t>{2});
}

TEST_CASE("on a GPU its own memory bounds a batch, the host's what is kept beside it") {
  const Planned planned(4);
  const DeviceNeeds needs = needs_of_gpu(model::Compute::kBf16);
  const auto plan_of = [&](std::int64_t micro) {
    PeerConfig config = planned.config;
    config.micro_batch = micro;
    return plan_memory(config, planned.layout, planned.stripes, needs);
  };
  const auto within = [&](std::size_t bytes) {
    return micro_batch_within(bytes, planned.config, planned.layout, planned.stripes, needs);
  };
  CHECK(within(plan_of(2).device_total()) == 2);
  CHECK(within(plan_of(2).device_total() - 1) == 1);
  CHECK(within(plan_of(4).device_total()) == 4);
  const auto tried = [&](std::size_t bytes) {
    return micro_batches_to_try(bytes, planned.config, planned.layout, planned.stripes, needs);
  };
  const std::size_t on_host = plan_of(4).host_total();
  CHECK(on_host == plan_of(1).host_total());
  CHECK(tried(on_host).value() == std::vector<std::int64_t>{4, 2, 1});
  auto refused = tried(on_host - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code() == ErrorCode::kExhausted);
  CHECK(refused.error().message().find("of the host's are needed") != std::string::npos);
}

TEST_CASE("a start for which there is no memory says how much it needs and what would do") {
  Planned planned(4);
  const auto refusal = [&](std::uint64_t available) {
    auto tries =
        micro_batches_to_try(available, planned.config, planned.layout, planned.stripes, kNeeds);
    REQUIRE(!tries.ok());
    CHECK(tries.error().code() == ErrorCode::kExhausted);
    return tries.error().message();
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(says(refusal(1000), "1 of 4 sequences at a time (batch.micro) need " +
                                human_bytes(planned.bytes(1)) + " of memory"));
  CHECK(says(refusal(1000), "lower batch.tokens"));
  CHECK(says(refusal(planned.bytes(1) - 1),
             "batch.recompute = \"blocks\" with batch.micro = 1 would do"));
  planned.config.micro_batch = 4;
  CHECK(says(refusal(planned.bytes(4) - 1), "batch.micro = 1 would do"));
  CHECK(says(refusal(planned.bytes(1)), "batch.micro = 1 would do"));
  CHECK(says(refusal(1000), "take a smaller [model]"));
  planned.config.recompute = RecomputeChoice::kBlocks;
  CHECK(says(refusal(1000), "lower batch.tokens"));
}

TEST_CASE("a start takes the first for which there is room, and no other error for that") {
  using Started = Result<std::int64_t>;
  std::vector<std::int64_t> started;
  const auto start = [&](std::int64_t room, ErrorCode otherwise) {
    started.clear();
    return start_with_first({4, 2, 1}, [&](std::int64_t micro) {
      started.push_back(micro);
      return micro <= room ? Started(micro) : Started(Error(otherwise, "no"));
    });
  };
  CHECK(start(2, ErrorCode::kExhausted).value() == 2);
  CHECK(started == std::vector<std::int64_t>{4, 2});
  CHECK(start(0, ErrorCode::kExhausted).error().code() == ErrorCode::kExhausted);
  CHECK(started.size() == 3);
  CHECK(!start(2, ErrorCode::kUnavailable).ok());
  CHECK(started.size() == 1);
}

TEST_CASE("a start says what of a batch it computes at a time and what that leaves") {
  Planned planned(4);
  planned.config.micro_batch = 2;
  MemoryPlan plan;
  plan.add("all", 3 << 20);
  CHECK(describe_batch(planned.config, plan, std::uint64_t{8} << 20) ==
        "2 of 4 sequences at a time (batch.micro) leave 5.00 MiB of 8.00 MiB free");
  CHECK(describe_batch(planned.config, plan, std::uint64_t{1} << 20) ==
        "2 of 4 sequences at a time (batch.micro) leave 0 B of 1.00 MiB free");
  CHECK(describe_batch(planned.config, plan, std::nullopt) ==
        "2 of 4 sequences at a time (batch.micro)");
}

}  // namespace starling::peer

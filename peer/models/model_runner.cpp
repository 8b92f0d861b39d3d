#include "peer/models/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "model/activations.h"
#include "peer/io/human_text.h"
#include "peer/roles/memory_plan.h"

namespace starling::peer {

namespace {

Result<ModelRunner> load_on(Result<Backend> backend, const StoredModel& stored, WeightsKind kind,
                            model::BatchShape shape) {
  if (!backend.ok()) return std::move(backend).error();
  Device& device = *backend.value().device;
  const std::size_t bytes = stored.layout.elements() * sizeof(float);
  auto params = device.allocate(MemoryKind::kDevice, bytes);
  if (!params.ok()) return std::move(params).error().with_context("model parameters");
  std::vector<float> host(stored.layout.elements());
  Status read = stored.file.read(section_of(kind), std::as_writable_bytes(std::span(host)));
  if (!read.ok()) return naming(std::move(read).error(), stored.file.path());
  device.copy_in(Lane::kCompute, params.value().as<std::byte>(), std::as_bytes(std::span(host)));
  device.drain();
  model::LlamaConfig config = stored.config.model;
  config.context = shape.tokens;  // no parameter depends on it
  auto layout = model::ParamLayout::plan(config, stored.layout.fragments());
  if (!layout.ok()) return std::move(layout).error().with_context("model");
  auto llama = model::Llama::create(config, layout.value(), shape, device, *backend.value().layers);
  if (!llama.ok()) return std::move(llama).error().with_context("model");
  return ModelRunner{std::move(backend).value(), std::move(params).value(),
                     std::move(llama).value(), shape.sequences};
}

// Asked of each GPU by "auto": where one has no room for so much, the next one may.
GpuJudge room_for(const StoredModel& stored, const model::BatchShape& shape) {
  return [&stored, shape](const Backend& gpu) -> Status {
    model::LlamaConfig config = stored.config.model;
    config.context = shape.tokens;
    const DeviceNeeds needs = needs_of(gpu);
    const std::size_t elements = stored.layout.elements();
    const std::size_t least = elements * sizeof(float) +
                              model::Llama::activation_bytes(config, shape, needs.activations) +
                              needs.scratch(model::step_shape(config, shape, elements));
    const auto free = gpu_memory_to_plan(gpu);
    if (!free || least <= *free) return ok_status();
    return Error(ErrorCode::kExhausted,
                 fmt::format("{} has {} free, and {} are needed", gpu.device->name(),
                             human_bytes(*free), human_bytes(least)));
  };
}

}  // namespace

Result<ModelRunner> load_runner(const StoredModel& stored, const RunnerChoice& choice,
                                std::int64_t tokens, const std::vector<std::int64_t>& passes) {
  const GpuJudge judge = room_for(stored, {passes.back(), tokens});
  const auto load = [&](const std::string& device) {
    return start_with_first(passes, [&](std::int64_t sequences) {
      return load_on(make_backend(device, {}, ComputeType::kFp32, judge), stored, choice.weights,
                     {sequences, tokens});
    });
  };
  auto runner = load(choice.device);
  const bool full = !runner.ok() && runner.error().code() == ErrorCode::kExhausted;
  if (choice.device != "auto" || !full) return runner;
  log_warning("{}; on the CPU instead", runner.error().message());
  return load("cpu");
}

std::vector<std::int64_t> passes_to_try(const PeerConfig& config, const model::BatchShape& batch) {
  const std::int64_t trained = micro_batch_of(config);
  std::vector<std::int64_t> passes = micro_batches(batch.sequences);
  std::erase_if(passes, [&](std::int64_t sequences) {
    return sequences > 1 && (sequences > trained || sequences * batch.tokens > kPassTokens);
  });
  return passes;
}

std::vector<std::int32_t> opening_tokens(const model::Tokenizer& tokenizer, std::string_view text,
                                         model::SpecialTokens special) {
  std::vector<std::int32_t> tokens;
  const auto encoder = tokenizer.encoder(special);
  if (const auto begin = tokenizer.begin_token()) tokens.push_back(*begin);
  encoder->encode(text, tokens);
  if (tokens.empty() && tokenizer.end_token()) tokens.push_back(*tokenizer.end_token());
  if (tokens.empty()) encoder->encode("\n", tokens);
  if (tokens.empty()) tokens.push_back(0);  // a model of SentencePiece may drop all white space
  return tokens;
}

}  // namespace starling::peer

#include "peer/model_runner.h"

#include <utility>

namespace starling::peer {

Result<ModelRunner> load_runner(const StoredModel& stored, WeightsKind kind,
                                model::BatchShape shape) {
  // "auto": the machine that looks at a checkpoint need not be like the one that trained it.
  auto backend = make_backend("auto", {});
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
                     std::move(llama).value()};
}

std::vector<std::int32_t> opening_tokens(const model::Tokenizer& tokenizer, std::string_view text,
                                         model::SpecialTokens special) {
  std::vector<std::int32_t> tokens;
  const auto encoder = tokenizer.encoder(special);
  if (const auto begin = tokenizer.begin_token()) tokens.push_back(*begin);
  encoder->encode(text, tokens);
  if (tokens.empty() && tokenizer.end_token()) tokens.push_back(*tokenizer.end_token());
  if (tokens.empty()) encoder->encode("\n", tokens);
  return tokens;
}

}  // namespace starling::peer

// Models that transformers saved, imported and computed here: tests/peer/goldens, written by
// scripts/make_hugging_face_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/cpu_device.h"
#include "model/llama.h"
#include "peer/files/stored_model.h"
#include "peer/io/file_io.h"
#include "peer/machine/backend.h"
#include "peer/models/model_import.h"
#include "tests/peer/scratch_folder.h"
#include "tests/support/worst.h"

namespace starling::peer {
namespace {

template <class T>
std::vector<T> words(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  REQUIRE(file.ok());
  const auto bytes = file.value().bytes();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T),
              std::as_writable_bytes(std::span(values)).data());
  return values;
}

// The largest difference from what transformers computed, over all positions.
double worst_logit(const std::filesystem::path& golden) {
  const ScratchFolder folder;
  const auto path = folder.path() / "model.ckpt";
  auto report = import_model({.folder = golden, .out = path});
  if (!report.ok()) FAIL(report.error().message());
  auto stored = open_model(path);
  REQUIRE(stored.ok());
  const model::ParamLayout& layout = stored.value().layout;
  auto weights = weights_for(layout, stored.value(), WeightsKind::kFast);
  REQUIRE(weights.ok());
  auto backend = make_backend("cpu", {.threads = 1});
  REQUIRE(backend.ok());
  Device& device = *backend.value().device;
  auto params = device.allocate(MemoryKind::kDevice, layout.elements() * sizeof(float));
  REQUIRE(params.ok());
  device.copy_in(Lane::kCompute, params.value().as<std::byte>(),
                 std::as_bytes(std::span(weights.value())));
  const model::LlamaConfig& config = layout.config();
  auto llama =
      model::Llama::create(config, layout, {1, config.context}, device, *backend.value().layers);
  REQUIRE(llama.ok());
  const auto tokens = words<std::int32_t>(golden / "tokens.bin");
  const auto expected = words<float>(golden / "logits.bin");
  const auto vocabulary = static_cast<std::size_t>(config.vocabulary);
  REQUIRE(expected.size() == tokens.size() * vocabulary);
  std::vector<float> logits(vocabulary);
  double worst = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    llama.value().next_token_logits(params.value().as<float>(), std::span(tokens).first(t + 1),
                                    logits);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      testing::note_worst(worst, std::abs(double{logits[i]} - expected[t * vocabulary + i]));
    }
  }
  return worst;
}

const std::filesystem::path kGoldens = STARLING_GOLDENS;

}  // namespace

TEST_CASE("a model of transformers with Llama 3's rotation gives the same logits here") {
  CHECK(worst_logit(kGoldens / "llama3_rotation") < 1e-4);
}

TEST_CASE("a model of transformers in several bf16 files gives the same logits here") {
  CHECK(worst_logit(kGoldens / "several_files") < 1e-4);
}

}  // namespace starling::peer

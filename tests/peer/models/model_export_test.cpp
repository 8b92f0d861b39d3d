#include "peer/models/model_export.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "peer/files/hugging_face.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> tensor(const std::filesystem::path& path, const std::string& name) {
  auto file = SafeTensorsFile::open(path);
  REQUIRE(file.ok());
  const SafeTensor& tensor = file.value().tensors().at(name);
  std::vector<float> values(tensor.elements());
  REQUIRE(file.value().read(tensor, 0, values).ok());
  return values;
}

}  // namespace

TEST_CASE("an exported folder holds every parameter under its name") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "model.ckpt", 5);
  const auto out = folder.path() / "out";
  auto report = export_model({.checkpoint = written.path, .out = out, .type = FloatType::kF32});
  REQUIRE(report.ok());
  CHECK(report.value().files == 1);
  CHECK(report.value().parameters == written.fast.size());
  auto layout = model::ParamLayout::plan(small_config().model, 2);
  REQUIRE(layout.ok());
  for (const model::ParamSlot& slot : layout.value().slots()) {
    CAPTURE(slot.name);
    const std::vector<float> values = tensor(out / kModelFileName, slot.name);
    REQUIRE(values.size() == slot.range.count);
    CHECK(std::equal(values.begin(), values.end(),
                     written.fast.begin() + static_cast<std::ptrdiff_t>(slot.range.first)));
  }
  auto config = parse_hugging_face_config(text_of(out / kModelConfigName));
  REQUIRE(config.ok());
  CHECK(config.value().width == small_config().model.width);
  CHECK(text_of(out / "tokenizer.json") == byte_tokenizer_json());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out.tmp"));
}

TEST_CASE("an export that fails leaves nothing of itself") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "model.ckpt", 5);
  const auto out = folder.path() / "out";
  auto report = export_model({.checkpoint = written.path,
                              .out = out,
                              .type = FloatType::kF32,
                              .texts = {{"no-such-folder/text.txt", "text"}}});
  REQUIRE_FALSE(report.ok());
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out.tmp"));
}

TEST_CASE("the slow weights are exported on demand, rounded to the type that is asked for") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "model.ckpt", 5, true);
  const auto out = folder.path() / "out";
  REQUIRE(
      export_model({.checkpoint = written.path, .out = out, .weights = WeightsKind::kSlow}).ok());
  const std::vector<float> values = tensor(out / kModelFileName, "model.embed_tokens.weight");
  REQUIRE_FALSE(values.empty());
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE(values[i] == to_float(to_bf16(written.slow[i])));
  }
}

TEST_CASE("a large model goes into several files with an index that names each tensor's") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "model.ckpt", 5);
  const auto out = folder.path() / "out";
  // Smaller than the embedding, which is alone then.
  auto report = export_model({.checkpoint = written.path, .out = out, .file_bytes_max = 4000});
  REQUIRE(report.ok());
  CHECK(report.value().files > 2);
  const nlohmann::json index = nlohmann::json::parse(text_of(out / kModelIndexName));
  CHECK(index["metadata"]["total_size"] == written.fast.size() * 2);
  auto layout = model::ParamLayout::plan(small_config().model, 2);
  REQUIRE(layout.ok());
  CHECK(index["weight_map"].size() == layout.value().slots().size());
  for (const auto& [name, file] : index["weight_map"].items()) {
    CAPTURE(name);
    CHECK(tensor(out / file.get<std::string>(), name).size() ==
          layout.value().find(name)->range.count);
  }
}

TEST_CASE("an export without a tokenizer says why there is none") {
  const ScratchFolder folder;
  const Written written = write_without_tokenizer(folder, "model.ckpt");
  auto report = export_model({.checkpoint = written.path, .out = folder.path() / "out"});
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report.value().no_tokenizer.find("/nowhere/shards") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out/tokenizer.json"));
  const Written bytes = write_drawn(folder, "bytes.ckpt", 5);
  report = export_model({.checkpoint = bytes.path, .out = folder.path() / "out2"});
  REQUIRE(report.ok());
  CHECK(report.value().no_tokenizer.empty());
}

TEST_CASE("an export never touches what is there") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "model.ckpt", 5);
  auto report = export_model({.checkpoint = written.path, .out = folder.path()});
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().message().find("exists already") != std::string::npos);
  auto slow = export_model(
      {.checkpoint = written.path, .out = folder.path() / "out", .weights = WeightsKind::kSlow});
  REQUIRE_FALSE(slow.ok());
  CHECK(slow.error().message().find("\"slow\"") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out"));
}

}  // namespace starling::peer

#include "peer/models/model_import.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "peer/files/hugging_face.h"
#include "peer/models/model_export.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder in Hugging Face's format with drawn weights.
struct Sample {
  explicit Sample(std::uint64_t file_bytes_max = 1'000'000) {
    written = write_drawn(scratch, "model.ckpt", 5);
    folder = scratch.path() / "exported";
    auto report = export_model({.checkpoint = written.path,
                                .out = folder,
                                .type = FloatType::kF32,
                                .file_bytes_max = file_bytes_max});
    REQUIRE(report.ok());
  }
  Result<ImportReport> import() const {
    return import_model({.folder = folder, .out = scratch.path() / "imported.ckpt"});
  }
  std::string refusal() const {
    auto report = import();
    REQUIRE_FALSE(report.ok());
    CHECK_FALSE(fs::exists(scratch.path() / "imported.ckpt"));
    return report.error().message();
  }
  // In a file of the folder; of the same length.
  void change(std::string_view file, std::string_view from, std::string_view to) const {
    std::string text = text_of(folder / file);
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    write_text(folder / file, text.replace(at, from.size(), to));
  }

  ScratchFolder scratch;
  Written written;
  fs::path folder;
};

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an exported model is imported to the last bit, from one file or several") {
  for (const std::uint64_t bytes : {std::uint64_t{1'000'000}, std::uint64_t{4000}}) {
    const Sample sample(bytes);
    auto report = sample.import();
    REQUIRE(report.ok());
    CHECK(report.value().parameters == sample.written.fast.size());
    CHECK(report.value().section.substr(0, 8) == "[model]\n");
    CHECK(mentions(report.value().section, "width = 16\n"));
    auto stored = open_model(sample.scratch.path() / "imported.ckpt");
    REQUIRE(stored.ok());
    auto layout = model::ParamLayout::plan(small_config().model, 2);
    REQUIRE(layout.ok());
    auto weights = weights_for(layout.value(), stored.value(), WeightsKind::kFast);
    REQUIRE(weights.ok());
    CHECK(weights.value() == sample.written.fast);
  }
}

TEST_CASE("an import never replaces a file") {
  const Sample sample;
  REQUIRE(sample.import().ok());
  auto again = sample.import();
  REQUIRE_FALSE(again.ok());
  CHECK(mentions(again.error().message(), "exists already"));
}

TEST_CASE("an imported folder must hold exactly the tensors that its config.json promises") {
  const Sample sample;
  SUBCASE("one is missing") {
    sample.change(kModelConfigName, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    CHECK(mentions(sample.refusal(), "9 of 29 tensors are missing"));
  }
  SUBCASE("one is unknown") {
    sample.change(kModelConfigName, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    CHECK(mentions(sample.refusal(), "no part of the model"));
  }
  SUBCASE("one has another shape") {
    sample.change(kModelConfigName, "\"intermediate_size\": 24", "\"intermediate_size\": 32");
    CHECK(mentions(sample.refusal(), "has the shape"));
  }
  SUBCASE("the output matrix is missing") {
    sample.change(kModelConfigName, "\"tie_word_embeddings\": true",
                  "\"tie_word_embeddings\": false");
    CHECK(mentions(sample.refusal(), "lm_head.weight"));
  }
  SUBCASE("one has a type that holds no weights") {
    sample.change(kModelFileName, "\"dtype\":\"F32\"", "\"dtype\":\"I32\"");
    CHECK(mentions(sample.refusal(), "I32"));
  }
}

TEST_CASE("weights that are not finite are not imported") {
  const Sample sample;
  std::string text = text_of(sample.folder / kModelFileName);
  const float bad = std::numeric_limits<float>::quiet_NaN();
  text.replace(text.size() - 4, 4, std::string(reinterpret_cast<const char*>(&bad), 4));
  write_text(sample.folder / kModelFileName, text);
  CHECK(mentions(sample.refusal(), "not finite"));
}

TEST_CASE("a file that was cut off or is not there is named") {
  const Sample sample;
  SUBCASE("cut off") {
    const std::string text = text_of(sample.folder / kModelFileName);
    write_text(sample.folder / kModelFileName, text.substr(0, text.size() - 100));
    CHECK(mentions(sample.refusal(), "cut off"));
  }
  SUBCASE("no weights") {
    fs::remove(sample.folder / kModelFileName);
    CHECK(mentions(sample.refusal(), "holds neither model.safetensors"));
  }
  SUBCASE("no config.json") {
    fs::remove(sample.folder / kModelConfigName);
    CHECK(mentions(sample.refusal(), "config.json"));
  }
}

TEST_CASE("where an index and a whole file stand for the weights, nobody guesses which") {
  const Sample sample(4000);
  write_text(sample.folder / kModelFileName, "of another time");
  const std::string refusal = sample.refusal();
  CHECK(mentions(refusal, "left over"));
  CHECK(mentions(refusal, std::string(kModelIndexName)));
}

TEST_CASE("an index cannot lead out of its folder") {
  const Sample sample(4000);
  for (const char* name : {"../model.ckpt", "/etc/passwd", "..", ".", "", "a/b"}) {
    CAPTURE(name);
    write_text(sample.folder / kModelIndexName,
               std::string(R"({"weight_map":{"model.norm.weight":")") + name + "\"}}");
    CHECK(mentions(sample.refusal(), "out of the folder"));
  }
  write_text(sample.folder / kModelIndexName, R"({"weight_map":{}})");
  CHECK(mentions(sample.refusal(), "no files"));
  write_text(sample.folder / kModelIndexName, R"({"weight_map":{"a":1}})");
  CHECK(mentions(sample.refusal(), "no text"));
  write_text(sample.folder / kModelIndexName, "{");
  CHECK(mentions(sample.refusal(), "weight_map"));
}

}  // namespace starling::peer

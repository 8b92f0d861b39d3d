#include "peer/model_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "model/param_layout.h"
#include "peer/checkpoint_parts.h"
#include "peer/checkpoint_write.h"
#include "peer/config.h"
#include "peer/file_io.h"
#include "peer/hugging_face.h"
#include "peer/safetensors.h"
#include "peer/tokenizer_file.h"

namespace starling::peer {
namespace {

namespace fs = std::filesystem;
using model::ParamSlot;
using nlohmann::json;

constexpr std::size_t kIndexBytesMax = std::size_t{16} << 20;
constexpr std::size_t kFilesMax = 4096;
constexpr std::size_t kPieceElements = std::size_t{1} << 20;

// The files that hold the weights: one, or those that the index names.
Result<std::vector<fs::path>> weight_files(const fs::path& folder) {
  const fs::path index = folder / kModelIndexName;
  if (!fs::exists(index)) {
    const fs::path file = folder / kModelFileName;
    if (fs::exists(file)) return std::vector<fs::path>{file};
    return Error(
        ErrorCode::kNotFound,
        fmt::format("{} holds neither {} nor {}: weights in other formats have to be saved "
                    "as safetensors first",
                    folder.string(), kModelFileName, kModelIndexName));
  }
  auto text = read_text(index, kIndexBytesMax);
  if (!text.ok()) return std::move(text).error();
  const json object = json::parse(text.value(), nullptr, false);
  const auto wrong = [&index](std::string_view what) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}: {}", index.string(), what));
  };
  if (!object.is_object() || !object.contains("weight_map") || !object["weight_map"].is_object()) {
    return wrong("no JSON object with a weight_map");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : object["weight_map"].items()) {
    if (!file.is_string()) return wrong("a file in weight_map is no text");
    names.insert(file.get<std::string>());
  }
  if (names.empty() || names.size() > kFilesMax) return wrong("no files, or too many");
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    const bool dots = name.empty() || name == "." || name == "..";
    if (dots || fs::path(name).filename() != name) {
      return wrong(fmt::format("the file name \"{}\" leads out of the folder", name));
    }
    files.push_back(folder / name);
  }
  return files;
}

// Tensors of Llama checkpoints that say nothing new: the output matrix where it is the embedding,
// and tables that old versions stored.
bool may_be_left_out(std::string_view name, const model::LlamaConfig& config) {
  constexpr std::string_view kTable = ".rotary_emb.inv_freq";
  if (name == "lm_head.weight") return config.tied_head;
  return name.size() >= kTable.size() && name.substr(name.size() - kTable.size()) == kTable;
}

bool same_shape(const model::Shape& shape, const std::vector<std::int64_t>& sizes) {
  return std::equal(sizes.begin(), sizes.end(), shape.dims.begin(),
                    shape.dims.begin() + shape.rank);
}

Status read_tensor(const SafeTensorsFile& file, const SafeTensor& tensor, std::string_view name,
                   std::span<float> target) {
  for (std::size_t at = 0; at < target.size(); at += kPieceElements) {
    const auto piece = target.subspan(at, std::min(kPieceElements, target.size() - at));
    if (Status read = file.read(tensor, at, piece); !read.ok()) return read;
    const bool finite =
        std::all_of(piece.begin(), piece.end(), [](float value) { return std::isfinite(value); });
    if (!finite) {
      return Error(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" is not finite", name));
    }
  }
  return ok_status();
}

// Fills `weights`, and takes the names of what came off `missing`.
Status read_file(const fs::path& path, const model::ParamLayout& layout,
                 std::map<std::string, const ParamSlot*>& missing, std::span<float> weights) {
  auto file = SafeTensorsFile::open(path);
  if (!file.ok()) return std::move(file).error();
  for (const auto& [name, tensor] : file.value().tensors()) {
    const auto wrong = [&](std::string_view what) {
      return Error(ErrorCode::kIncompatible,
                   fmt::format("{}: tensor \"{}\" {}", path.string(), name, what));
    };
    if (may_be_left_out(name, layout.config())) continue;
    const auto slot = missing.find(name);
    if (slot == missing.end()) {
      return wrong(layout.find(name) == nullptr
                       ? "is no part of the model that config.json describes"
                       : "is there twice");
    }
    if (!same_shape(slot->second->shape, tensor.shape)) {
      return wrong(fmt::format("has the shape [{}], where config.json promises another",
                               fmt::join(tensor.shape, ", ")));
    }
    const model::Range range = slot->second->range;
    Status read =
        read_tensor(file.value(), tensor, name, weights.subspan(range.first, range.count));
    if (!read.ok()) return std::move(read).error().with_context(path.string());
    missing.erase(slot);
  }
  return ok_status();
}

Result<std::vector<float>> read_weights(const fs::path& folder, const model::ParamLayout& layout) {
  auto files = weight_files(folder);
  if (!files.ok()) return std::move(files).error();
  std::map<std::string, const ParamSlot*> missing;
  for (const ParamSlot& slot : layout.slots()) missing.emplace(slot.name, &slot);
  std::vector<float> weights(layout.elements());
  for (const fs::path& path : files.value()) {
    Status read = read_file(path, layout, missing, weights);
    if (!read.ok()) return std::move(read).error();
  }
  if (!missing.empty()) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{}: {} of {} tensors are missing, \"{}\" among them", folder.string(),
                             missing.size(), layout.slots().size(), missing.begin()->first));
  }
  return weights;
}

// A whole configuration around the model, valid on its own.
PeerConfig configuration_for(const model::LlamaConfig& model) {
  PeerConfig config;
  config.model = model;
  config.run.total_tokens = config.run.tokens;
  config.batch = {.sequences = 1, .tokens = std::min<std::int64_t>(model.context, 1024)};
  config.outer.rounds.fragments =
      static_cast<std::uint16_t>(std::min<std::int64_t>(5, model.layers + 1));
  return config;
}

std::string model_section(const PeerConfig& config) {
  const std::string text = dump(config);
  const std::size_t first = text.find("[model]");
  return text.substr(first, text.find("\n\n", first) + 1 - first);
}

// One that fits the model.
Result<TokenizerFile> tokenizer_in(const fs::path& folder, const PeerConfig& config) {
  return tokenizer_of_model(config, {}, folder.string());
}

}  // namespace

Result<ImportReport> import_model(const ImportOptions& options) {
  if (fs::exists(options.out)) {
    return Error(ErrorCode::kInvalidConfig,
                 options.out.string() + " exists already: remove it, or choose another name");
  }
  auto text = read_text(options.folder / kModelConfigName, kModelConfigBytesMax);
  if (!text.ok()) return std::move(text).error();
  auto model = parse_hugging_face_config(text.value());
  if (!model.ok()) return std::move(model).error().with_context(options.folder.string());
  auto config = parse_config(dump(configuration_for(model.value())), "config.json", {});
  if (!config.ok()) return std::move(config).error().with_context(options.folder.string());
  auto layout =
      model::ParamLayout::plan(config.value().model, config.value().outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error().with_context(options.folder.string());
  auto weights = read_weights(options.folder, layout.value());
  if (!weights.ok()) return std::move(weights).error();

  CheckpointHeader header;
  header.sequence = 1;
  header.digests.layout = layout.value().digest();
  header.title = fmt::format("imported from {}", options.folder.filename().string());
  const std::string toml = dump(config.value());
  std::vector<Section> sections = {{"weights", std::as_bytes(std::span(weights.value()))},
                                   {"config", std::as_bytes(std::span(toml))}};
  ImportReport report{.parameters = layout.value().elements(),
                      .section = model_section(config.value())};
  auto tokenizer = tokenizer_in(options.folder, config.value());
  if (tokenizer.ok()) {
    report.tokenizer = tokenizer.value().tokenizer->name();
    sections.push_back(tokenizer_section(report.tokenizer));
    Status kept = keep_beside_checkpoint(tokenizer.value(), options.out.parent_path());
    if (!kept.ok()) return std::move(kept).error();
  } else {
    report.no_tokenizer = tokenizer.error().message();
  }
  Status written = write_checkpoint(options.out, header, sections);
  if (!written.ok()) return std::move(written).error();
  return report;
}

}  // namespace starling::peer

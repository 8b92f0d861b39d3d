#include "peer/models/model_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/log.h"
#include "model/param_layout.h"
#include "optim/vector_math.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/hugging_face.h"
#include "peer/files/safetensors.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/file_io.h"

namespace starling::peer {
namespace {

namespace fs = std::filesystem;
using model::ParamSlot;
using nlohmann::json;

constexpr std::size_t kIndexBytesMax = std::size_t{16} << 20;

// The files that hold the weights: one, or those that the index names.
Result<std::vector<fs::path>> weight_files(const fs::path& folder) {
  const fs::path index = folder / kModelIndexName;
  auto has_index = path_exists(index);
  if (!has_index.ok()) return std::move(has_index).error();
  if (!has_index.value()) {
    const fs::path file = folder / kModelFileName;
    auto has_file = path_exists(file);
    if (!has_file.ok()) return std::move(has_file).error();
    if (has_file.value()) return std::vector<fs::path>{file};
    return Error(
        ErrorCode::kNotFound,
        fmt::format("{} holds neither {} nor {}: weights in other formats have to be saved "
                    "as safetensors first",
                    folder.string(), kModelFileName, kModelIndexName));
  }
  auto text = read_text(index, kIndexBytesMax);
  if (!text.ok()) return std::move(text).error();
  auto names = parse_model_index(text.value());
  if (!names.ok()) return std::move(names).error().with_context(index.string());
  auto has_both = path_exists(folder / kModelFileName);
  if (!has_both.ok()) return std::move(has_both).error();
  if (has_both.value() && !names.value().contains(std::string(kModelFileName))) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{0} holds {1} and {2}, which names other files: one of the two is "
                             "left over from another time; move it away",
                             folder.string(), kModelFileName, kModelIndexName));
  }
  std::vector<fs::path> files;
  for (const std::string& name : names.value()) files.push_back(folder / name);
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

// Where the weights lie: for each slot of the layout, in its order, a tensor of one of the files.
struct Place {
  const fs::path* file = nullptr;  // null: not found yet
  SafeTensor tensor;
};

// Notes where the tensors of one file belong.
Status place_file(const fs::path& path, const model::ParamLayout& layout,
                  std::vector<Place>& places) {
  auto file = SafeTensorsFile::open(path);
  if (!file.ok()) return std::move(file).error();
  for (const auto& [name, tensor] : file.value().tensors()) {
    const auto wrong = [&, &name = name](std::string_view what) {
      return Error(ErrorCode::kIncompatible,
                   fmt::format("{}: tensor \"{}\" {}", path.string(), name, what));
    };
    if (may_be_left_out(name, layout.config())) continue;
    const ParamSlot* slot = layout.find(name);
    if (slot == nullptr) return wrong("is no part of the model that config.json describes");
    Place& place = places[static_cast<std::size_t>(slot - layout.slots().data())];
    if (place.file != nullptr) return wrong("is there twice");
    if (!same_shape(slot->shape, tensor.shape)) {
      return wrong(fmt::format("has the shape [{}], where config.json promises another",
                               fmt::join(tensor.shape, ", ")));
    }
    place = {&path, tensor};
  }
  return ok_status();
}

Result<std::vector<Place>> place_tensors(std::span<const fs::path> files,
                                         const model::ParamLayout& layout) {
  std::vector<Place> places(layout.slots().size());
  for (const fs::path& path : files) {
    if (Status placed = place_file(path, layout, places); !placed.ok()) {
      return std::move(placed).error();
    }
  }
  const auto is_missing = [](const Place& place) { return place.file == nullptr; };
  const auto missing = std::count_if(places.begin(), places.end(), is_missing);
  if (missing == 0) return places;
  const auto first = std::find_if(places.begin(), places.end(), is_missing) - places.begin();
  return Error(ErrorCode::kIncompatible,
               fmt::format("{}: {} of {} tensors are missing, \"{}\" among them",
                           files.front().parent_path().string(), missing, places.size(),
                           layout.slots()[static_cast<std::size_t>(first)].name));
}

// All weights, one slot after the other, read as they are asked for: from the begin to the end,
// whole numbers at a time.
class WeightReader {
 public:
  WeightReader(const model::ParamLayout& layout, std::vector<Place> places)
      : layout_(layout), places_(std::move(places)) {}

  Status read(std::span<float> target) {
    while (!target.empty()) {
      const std::size_t left = layout_.slots()[slot_].range.count - at_;
      const auto piece = target.first(std::min(target.size(), left));
      if (Status done = read_piece(piece); !done.ok()) return done;
      target = target.subspan(piece.size());
      at_ += piece.size();
      if (piece.size() < left) continue;
      ++slot_;
      at_ = 0;
    }
    return ok_status();
  }

 private:
  Status read_piece(std::span<float> piece) {
    const Place& place = places_[slot_];
    if (place.file != opened_) {
      auto file = SafeTensorsFile::open(*place.file);
      if (!file.ok()) return std::move(file).error();
      file_.emplace(std::move(file).value());
      opened_ = place.file;
    }
    if (Status done = file_->read(place.tensor, at_, piece); !done.ok()) {
      return std::move(done).error().with_context(place.file->string());
    }
    if (optim::measure(piece).finite) return ok_status();
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: tensor \"{}\" is not finite", place.file->string(),
                             layout_.slots()[slot_].name));
  }

  const model::ParamLayout& layout_;
  const std::vector<Place> places_;
  std::size_t slot_ = 0, at_ = 0;  // what is next
  std::optional<SafeTensorsFile> file_;
  const fs::path* opened_ = nullptr;
};

// `reader` must outlive it.
SectionSource source_of(WeightReader& reader, const model::ParamLayout& layout) {
  return {layout.elements() * sizeof(float),
          [&reader, values = std::vector<float>()](std::uint64_t,
                                                   std::span<std::byte> target) mutable -> Status {
            STARLING_ASSERT(target.size() % sizeof(float) == 0);
            values.resize(target.size() / sizeof(float));
            Status read = reader.read(values);
            if (read.ok()) std::memcpy(target.data(), values.data(), target.size());
            return read;
          }};
}

// A whole configuration around the model, valid on its own.
PeerConfig configuration_for(const model::LlamaConfig& model) {
  PeerConfig config;
  config.model = model;
  config.run.total_tokens = config.run.tokens;
  config.batch = {.sequences = 1, .tokens = std::min<std::int64_t>(model.context, 1024)};
  config.outer.rounds = outer_defaults(config.outer.rule.method, model.layers).rounds;
  return config;
}

std::string model_section(const PeerConfig& config) {
  const std::string text = dump(config);
  const std::size_t first = text.find("[model]");
  return text.substr(first, text.find("\n\n", first) + 1 - first);
}

// One that fits the model.
Result<TokenizerFile> tokenizer_in(const fs::path& folder, const PeerConfig& config) {
  return tokenizer_of_model(config, {}, (folder / "").string());  // though it be called "bytes"
}

// `generate` ends at the tokenizer's end of a text alone.
void warn_of_other_ends(const std::vector<std::int64_t>& ends, const model::Tokenizer& tokenizer) {
  const auto end = tokenizer.end_token();
  for (const std::int64_t token : ends) {
    if (end && token == *end) continue;
    log_warning(
        "by config.json a text also ends with token {} (eos_token_id), by this tokenizer {}: "
        "'starling generate' goes on behind it, and 'starling prepare' does not write it",
        token, end ? fmt::format("with {} alone", *end) : "with none");
  }
}

}  // namespace

Result<ImportReport> import_model(const ImportOptions& options) {
  if (Status free =
          check_absent(options.out, "another name; the folder to import is named before it");
      !free.ok()) {
    return std::move(free).error();
  }
  auto text = read_text(options.folder / kModelConfigName, kModelConfigBytesMax);
  if (!text.ok()) return std::move(text).error();
  auto model = parse_hugging_face_config(text.value());
  if (!model.ok()) return std::move(model).error().with_context(options.folder.string());
  auto config = parse_config(dump(configuration_for(model.value())),
                             "its config.json as a configuration", {});
  if (!config.ok()) return std::move(config).error().with_context(options.folder.string());
  auto layout =
      model::ParamLayout::plan(config.value().model, config.value().outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error().with_context(options.folder.string());
  auto files = weight_files(options.folder);
  if (!files.ok()) return std::move(files).error();
  auto places = place_tensors(files.value(), layout.value());
  if (!places.ok()) return std::move(places).error();
  WeightReader weights(layout.value(), std::move(places).value());

  CheckpointHeader header;
  header.sequence = 1;
  header.digests.layout = layout.value().digest();
  header.title = fmt::format("imported from {}", options.folder.filename().string());
  const std::string toml = dump(config.value());
  std::vector<Section> sections = {{"weights", {}, source_of(weights, layout.value())},
                                   {"config", std::as_bytes(std::span(toml))}};
  ImportReport report{.parameters = layout.value().elements(),
                      .section = model_section(config.value())};
  auto tokenizer = tokenizer_in(options.folder, config.value());
  if (tokenizer.ok()) {
    report.tokenizer = tokenizer.value().tokenizer->name();
    warn_of_other_ends(parse_end_tokens(text.value()), *tokenizer.value().tokenizer);
    sections.push_back(tokenizer_section(report.tokenizer));
  } else {
    report.no_tokenizer = tokenizer.error().message();
  }
  Status written = write_checkpoint(options.out, header, sections);
  if (!written.ok()) return std::move(written).error();
  if (!tokenizer.ok()) return report;
  auto kept = keep_beside_checkpoint(tokenizer.value(), options.out.parent_path());
  if (!kept.ok()) {
    std::error_code ignored;
    fs::remove(options.out, ignored);
    return std::move(kept).error();
  }
  report.tokenizer_file = std::move(kept).value();
  return report;
}

}  // namespace starling::peer

#include "peer/models/model_export.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "model/tokenizers/sentencepiece_json.h"
#include "peer/files/hugging_face.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"

namespace starling::peer {
namespace {

namespace fs = std::filesystem;
using model::ParamSlot;
using nlohmann::json;

constexpr std::size_t kPieceElements = std::size_t{1} << 20;

// Parameters that stand in one file, side by side in the arena as well.
using Group = std::span<const ParamSlot>;

std::vector<Group> plan_files(std::span<const ParamSlot> slots, const ExportOptions& options) {
  std::vector<Group> groups;
  std::size_t first = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::uint64_t more = slots[i].range.count * bytes_of(options.type);
    if (i > first && bytes + more > options.file_bytes_max) {
      groups.push_back(slots.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  groups.push_back(slots.subspan(first));
  return groups;
}

std::string file_name(std::size_t index, std::size_t files) {
  if (files == 1) return std::string(kModelFileName);
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files);
}

// The floats of one section, read from the file in order.
class SectionReader {
 public:
  static Result<SectionReader> open(const StoredModel& stored, WeightsKind kind) {
    const fs::path& path = stored.file.path();
    const auto at = stored.file.section_offset(section_of(kind));
    const auto bytes = stored.file.section_bytes(section_of(kind));
    if (!at || !bytes) {
      return Error(ErrorCode::kNotFound,
                   fmt::format("{} has no section \"{}\"", path.string(), section_of(kind)));
    }
    if (*bytes != stored.layout.elements() * sizeof(float)) {
      return Error(ErrorCode::kIncompatible,
                   fmt::format("{}: its section \"{}\" is not the size of its model", path.string(),
                               section_of(kind)));
    }
    auto file = FileHandle::open(path, O_RDONLY);
    if (!file.ok()) return std::move(file).error();
    return SectionReader(path, std::move(file).value(), *at);
  }

  Result<std::span<const float>> next(std::size_t most) {
    values_.resize(std::min(most, kPieceElements));
    const auto bytes = std::as_writable_bytes(std::span(values_));
    if (Status read = read_at(file_, path_, at_, bytes); !read.ok()) {
      return std::move(read).error();
    }
    at_ += bytes.size();
    return std::span<const float>(values_);
  }

 private:
  SectionReader(fs::path path, FileHandle file, std::uint64_t at)
      : path_(std::move(path)), file_(std::move(file)), at_(at) {}
  fs::path path_;
  FileHandle file_;
  std::uint64_t at_;
  std::vector<float> values_;
};

Status write_group(const fs::path& path, const ExportOptions& options, Group group,
                   const std::map<std::string, std::string>& metadata, SectionReader& weights) {
  std::vector<NamedShape> shapes;
  std::size_t elements = 0;
  for (const ParamSlot& slot : group) {
    const auto& dims = slot.shape.dims;
    shapes.push_back({slot.name, {dims.begin(), dims.begin() + slot.shape.rank}});
    elements += slot.range.count;
  }
  auto writer = SafeTensorsWriter::create(path, options.type, shapes, metadata);
  if (!writer.ok()) return std::move(writer).error();
  while (elements > 0) {
    auto values = weights.next(elements);
    if (!values.ok()) return std::move(values).error();
    if (Status done = writer.value().append(values.value()); !done.ok()) return done;
    elements -= values.value().size();
  }
  return writer.value().finish();
}

Result<ExportReport> write_weights(const fs::path& folder, const ExportOptions& options,
                                   const StoredModel& stored) {
  auto weights = SectionReader::open(stored, options.weights);
  if (!weights.ok()) return std::move(weights).error();
  const CheckpointHeader& header = stored.file.header();
  // "format": what transformers asks for; the rest is for people.
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"starling.title", printable(header.title)},
      {"starling.tokens", std::to_string(header.tokens)}};
  const std::vector<Group> groups = plan_files(stored.layout.slots(), options);
  ExportReport report{.parameters = stored.layout.elements(),
                      .bytes = stored.layout.elements() * bytes_of(options.type),
                      .files = static_cast<std::uint32_t>(groups.size())};
  json places = json::object();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string name = file_name(i, groups.size());
    for (const ParamSlot& slot : groups[i]) places[slot.name] = name;
    Status done = write_group(folder / name, options, groups[i], metadata, weights.value());
    if (!done.ok()) return std::move(done).error();
  }
  if (groups.size() > 1) {
    const json index = {{"metadata", {{"total_size", report.bytes}}}, {"weight_map", places}};
    Status done = replace_file(folder / kModelIndexName, index.dump(2) + "\n");
    if (!done.ok()) return std::move(done).error();
  }
  return report;
}

// What `transformers` is to make of tokenizer.json.
json tokenizer_settings(const model::Tokenizer& tokenizer, std::int64_t context) {
  json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"model_max_length", context},
                   {"clean_up_tokenization_spaces", false}};
  if (const auto begin = tokenizer.begin_token()) {
    settings["bos_token"] = tokenizer.symbol_of(*begin);
  }
  if (const auto end = tokenizer.end_token()) settings["eos_token"] = tokenizer.symbol_of(*end);
  return settings;
}

// Programs that generate end at the token that ends a document. Not all look into config.json.
json generation_settings(const DocumentMarks& marks) {
  json settings = {{"_from_model_config", true}};
  if (marks.begin) settings["bos_token_id"] = *marks.begin;
  if (marks.end) settings["eos_token_id"] = *marks.end;
  return settings;
}

// tokenizer.json, which `transformers` reads, and the file itself where it is another.
Status add_tokenizer(const TokenizerFile& file, std::map<std::string, std::string>& texts) {
  std::string& format = texts[std::string(kTokenizerJsonName)];
  if (file.contents.empty()) {
    format = byte_tokenizer_json();
  } else if (file.file_name == kTokenizerJsonName) {
    format = file.contents;
  } else {
    auto model = model::read_sentencepiece_model(file.contents);
    if (!model.ok()) return std::move(model).error();
    format = model::sentencepiece_json(model.value());
    texts[std::string(kTokenizerModelName)] = file.contents;
  }
  return ok_status();
}

Status write_texts(const fs::path& folder, const StoredModel& stored, const ExportOptions& options,
                   ExportReport& report) {
  const model::LlamaConfig& config = stored.config.model;
  DocumentMarks marks;
  std::map<std::string, std::string> texts = options.texts;
  // A model without its tokenizer is worth exporting, too.
  if (auto found = tokenizer_of(stored, options.tokenizer); found.ok()) {
    const model::Tokenizer& tokenizer = *found.value().tokenizer;
    marks = {tokenizer.begin_token(), tokenizer.end_token()};
    if (Status done = add_tokenizer(found.value(), texts); !done.ok()) return done;
    texts["tokenizer_config.json"] = tokenizer_settings(tokenizer, config.context).dump(2) + "\n";
  } else {
    report.no_tokenizer = found.error().message();
  }
  texts["generation_config.json"] = generation_settings(marks).dump(2) + "\n";
  texts[std::string(kModelConfigName)] = hugging_face_config(config, options.type, marks);
  for (const auto& [name, text] : texts) {
    if (Status done = replace_file(folder / name, text); !done.ok()) return done;
  }
  return ok_status();
}

}  // namespace

Result<ExportReport> export_model(const ExportOptions& options) {
  const fs::path out = without_last_slash(options.out);
  if (Status free = check_absent(out, "another folder; the checkpoint is named before it");
      !free.ok()) {
    return std::move(free).error();
  }
  auto stored = open_model(options.checkpoint);
  if (!stored.ok()) return std::move(stored).error();
  fs::path beside = out;
  beside += ".tmp";
  std::error_code failure;
  fs::remove_all(beside, failure);  // of an interrupted export
  if (failure) return io_error("clear", beside, failure.value());
  if (!options.tokenizer.empty()) {  // before the long part
    auto found = tokenizer_of(stored.value(), options.tokenizer);
    if (!found.ok()) return std::move(found).error();
  }
  const TemporaryFolder unfinished(beside);  // whatever of it is still there at the end has failed
  if (Status made = create_folder(beside); !made.ok()) return std::move(made).error();
  auto report = write_weights(beside, options, stored.value());
  if (!report.ok()) return std::move(report).error();
  Status texts = write_texts(beside, stored.value(), options, report.value());
  if (!texts.ok()) return std::move(texts).error();
  if (Status synced = sync_folder(beside); !synced.ok()) return std::move(synced).error();
  fs::rename(beside, out, failure);
  if (failure) return io_error("rename to", out, failure.value());
  if (Status synced = sync_folder(out.parent_path()); !synced.ok())
    return std::move(synced).error();
  return report;
}

std::filesystem::path without_last_slash(const std::filesystem::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

}  // namespace starling::peer

#include "peer/files/checkpoint_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/tokenizers/tokenizer.h"
#include "optim/wire_format.h"
#include "peer/files/checkpoint_codec.h"

namespace starling::peer {

namespace {

constexpr const char* kTokenizerSection = "tokenizer";

// No section but those of the model is larger than this, whatever the swarm.
constexpr std::uint64_t kSmallSectionMax = std::uint64_t{1} << 30;
// Deltas without an answer, each of a stripe, in f32 at most, and what names it.
constexpr std::uint64_t kUnsettledMax =
    gossip::Ledger::kInitiatorRowsMax * (optim::kStripeParameters * sizeof(float) + 256);

void add(SectionList& list, std::string name, std::vector<std::byte> bytes) {
  list.owned.push_back(std::move(bytes));
  list.sections.push_back({std::move(name), list.owned.back()});
}

void add(SectionList& list, std::string name, std::span<const float> values) {
  list.sections.push_back({std::move(name), std::as_bytes(values)});
}

// Reads a small section and decodes it into `target`.
template <class T, class Decode>
Status read_part(const CheckpointFile& file, std::string_view name, Decode decode, T& target,
                 std::uint64_t most = kSmallSectionMax) {
  auto bytes = file.read(name, most);
  if (!bytes.ok()) return std::move(bytes).error();
  auto decoded = decode(bytes.value());
  if (!decoded.ok()) return std::move(decoded).error();
  target = std::move(decoded).value();
  return ok_status();
}

}  // namespace

SectionList sections_of(const CheckpointImage& image, std::string_view config,
                        std::string_view tokenizer) {
  SectionList list;
  add(list, "weights", std::span(image.weights));
  add(list, "first_moment", std::span(image.first_moment));
  add(list, "second_moment", std::span(image.second_moment));
  if (!image.slow.empty()) {
    add(list, "slow", std::span(image.slow));
    add(list, "momentum", std::span(image.momentum));
  }
  add(list, "scales", std::span(image.scales));
  add(list, "progress", encode(image.progress));
  add(list, "data", encode(image.data));
  add(list, "ledger", encode(std::span(image.ledger)));
  add(list, "unsettled", encode(std::span(image.unsettled)));
  add(list, "tokens", encode(std::span(image.tokens)));
  add(list, "age", encode(image.age));
  const auto text = std::as_bytes(std::span(config));
  add(list, "config", std::vector<std::byte>(text.begin(), text.end()));
  const auto name = std::as_bytes(std::span(tokenizer));
  if (!name.empty()) add(list, kTokenizerSection, std::vector<std::byte>(name.begin(), name.end()));
  return list;
}

Status check_sections(const CheckpointFile& file, optim::OuterMethod method) {
  const bool alone = method == optim::OuterMethod::kLocal;
  const bool slow = file.section_bytes("slow").has_value();
  const bool momentum = file.section_bytes("momentum").has_value();
  if (alone ? !slow : slow && momentum) return ok_status();
  // Alone, it would write checkpoints with which nobody can go back into the swarm.
  return Error(ErrorCode::kIncompatible,
               fmt::format("{} is of a run whose outer.method was {}: keep that, or begin another "
                           "run with its weights by run.name and run.start",
                           file.path().string(), alone ? "not \"local\"" : "\"local\""));
}

Status restore(const CheckpointFile& file, CheckpointImage& image) {
  struct Part {
    std::string_view name;
    std::vector<float>* values;
  };
  const Part parts[] = {{"weights", &image.weights},
                        {"first_moment", &image.first_moment},
                        {"second_moment", &image.second_moment},
                        {"slow", &image.slow},
                        {"momentum", &image.momentum}};
  for (const auto& [name, values] : parts) {
    if (values->empty()) continue;  // a method without outer steps
    auto read = file.read(name, std::as_writable_bytes(std::span(*values)));
    if (!read.ok()) return read;
  }
  auto scales = read_part(file, "scales", decode_scales, image.scales);
  if (!scales.ok()) return scales;
  auto data = read_part(file, "data", decode_data, image.data);
  if (!data.ok()) return data;
  auto progress = read_progress(file);
  if (!progress.ok()) return std::move(progress).error();
  image.progress = progress.value();
  auto ledger = read_part(file, "ledger", decode_ledger, image.ledger);
  if (!ledger.ok()) return ledger;
  auto unsettled = read_part(file, "unsettled", decode_unsettled, image.unsettled, kUnsettledMax);
  if (!unsettled.ok()) return unsettled;
  auto tokens = read_part(file, "tokens", decode_tokens, image.tokens);
  if (!tokens.ok()) return tokens;
  image.age = {};
  return file.section_bytes("age") ? read_part(file, "age", decode_age, image.age) : ok_status();
}

Result<DataPosition> read_data(const CheckpointFile& file) {
  DataPosition position;
  Status read = read_part(file, "data", decode_data, position);
  if (!read.ok()) return std::move(read).error();
  return position;
}

Result<TrainerProgress> read_progress(const CheckpointFile& file) {
  TrainerProgress progress;
  Status read = read_part(file, "progress", decode_progress, progress);
  if (!read.ok()) return std::move(read).error();
  return progress;
}

Result<std::string> read_config(const CheckpointFile& file) {
  auto bytes = file.read("config", kSmallSectionMax);
  if (!bytes.ok()) return std::move(bytes).error();
  return std::string(reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size());
}

Result<std::string> read_tokenizer_name(const CheckpointFile& file) {
  if (!file.section_bytes(kTokenizerSection)) return std::string();
  auto bytes = file.read(kTokenizerSection, model::kTokenizerNameMax);
  if (!bytes.ok()) return std::move(bytes).error();
  std::string name(reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size());
  if (!model::is_tokenizer_name(name)) return senseless_section(kTokenizerSection);
  return name;
}

Section tokenizer_section(std::string_view name) {
  return {kTokenizerSection, std::as_bytes(std::span(name))};
}

}  // namespace starling::peer

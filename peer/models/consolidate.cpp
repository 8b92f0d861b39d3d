#include "peer/models/consolidate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "peer/files/stored_model.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/models/distinct_peers.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string name_of(const fs::path& input) {
  return printable(without_last_slash(input).filename().string());
}

std::string record_of(const ConsolidateOptions& options, const AverageReport& average) {
  json contributors = json::array();
  for (const Contributor& contributor : average.contributors) {
    contributors.push_back({{"name", name_of(contributor.input)},
                            {"peer", fmt::format("{:016x}", contributor.peer)},
                            {"run", printable(contributor.title)},
                            {"step", contributor.step},
                            {"tokens", contributor.tokens},
                            {"share", contributor.share}});
  }
  const json record = {{"tokens", average.tokens},
                       {"weighted_by", options.by_tokens ? "tokens" : "nothing"},
                       {"weights", options.weights == WeightsKind::kSlow ? "slow" : "fast"},
                       {"contributors", contributors}};
  return record.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// Says why there is no tokenizer by a path that outlives the average.
void explain_missing_tokenizer(ConsolidateReport& report) {
  auto stored = open_model(report.average.contributors.front().input);
  if (!stored.ok()) return;
  auto found = tokenizer_of(stored.value(), "");
  if (!found.ok()) report.exported.no_tokenizer = found.error().message();
}

}  // namespace

Result<ConsolidateReport> consolidate(const ConsolidateOptions& options) {
  // It is an input, where the new folder was forgotten.
  Status free = check_absent(
      options.out, "another folder; the new one is named first, before what goes into it");
  if (!free.ok()) return std::move(free).error();
  for (const fs::path& input : options.inputs) {  // before anything is made
    auto is_there = path_exists(input);
    if (!is_there.ok()) return std::move(is_there).error();
    if (!is_there.value()) return Error(ErrorCode::kNotFound, input.string() + " is not there");
  }
  const TemporaryFolder scratch(  // for the average and its tokenizer
      without_last_slash(options.out).string() + ".average.tmp");
  Status made = create_folder(scratch.path());
  if (!made.ok()) return std::move(made).error();
  const fs::path mean = scratch.path() / "average.ckpt";
  auto merged = average({.out = mean,
                         .inputs = options.inputs,
                         .by_tokens = options.by_tokens,
                         .any_run = options.any_run});
  if (!merged.ok()) return std::move(merged).error();
  ConsolidateReport report{.out = options.out, .average = std::move(merged).value()};
  std::vector<PeerFile> owners;
  for (const Contributor& contributor : report.average.contributors) {
    owners.push_back({contributor.input, contributor.peer});
  }
  if (Status distinct = check_distinct(owners); !distinct.ok()) return std::move(distinct).error();
  auto exported =
      export_model({.checkpoint = mean,
                    .out = options.out,
                    .tokenizer = options.tokenizer,
                    .weights = options.weights,
                    .type = options.type,
                    .texts = {{"contributors.json", record_of(options, report.average)}}});
  if (!exported.ok()) return std::move(exported).error();
  report.exported = std::move(exported).value();
  if (!report.exported.no_tokenizer.empty()) explain_missing_tokenizer(report);
  return report;
}

std::string consolidate_text(const ConsolidateReport& report) {
  std::string text =
      fmt::format("{}: {} parameters, {} bytes of weights, {} tokens\n", report.out.string(),
                  report.exported.parameters, report.exported.bytes, report.average.tokens);
  for (const Contributor& contributor : report.average.contributors) {
    text += fmt::format("  {:<16} {:>14} tokens {:>6.2f}%\n", name_of(contributor.input),
                        contributor.tokens, contributor.share * 100);
  }
  return text;
}

}  // namespace starling::peer

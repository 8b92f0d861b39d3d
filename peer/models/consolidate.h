// consolidate: what several peers have learned -> one model in a folder that other tools open. It
// is average() and then export_model(), with a record of who contributed, contributors.json, beside
// the weights:
//
//   {"tokens": 4000, "weighted_by": "tokens", "weights": "fast",
//    "contributors": [{"name": "peer-0", "peer": "00c0...", "run": "...", "step": 10,
//                      "tokens": 1000, "share": 0.25}, ...]}
//
// Needs room for the average beside `out` while it works. Blocking; for the command line. Errors
// are those of the two, and an input that is of the same peer as another: it would count twice.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/models/model_commands.h"
#include "peer/models/model_export.h"

namespace starling::peer {

struct ConsolidateOptions {
  std::filesystem::path out{};  // a new folder
  std::vector<std::filesystem::path> inputs{};
  std::string tokenizer{};                  // as in ExportOptions
  bool by_tokens = false, any_run = false;  // as in AverageOptions
  WeightsKind weights = WeightsKind::kFast;
  FloatType type = FloatType::kBf16;
};

struct ConsolidateReport {
  std::filesystem::path out{};
  AverageReport average{};
  ExportReport exported{};
};

Result<ConsolidateReport> consolidate(const ConsolidateOptions& options);

// What a person reads.
std::string consolidate_text(const ConsolidateReport& report);

}  // namespace starling::peer

// model_export: a checkpoint of ours -> a folder that Hugging Face's tools open: config.json,
// generation_config.json, the weights as safetensors in one file or several with an index, and the
// tokenizer. The folder appears under its name when it is complete. Weights go through memory in
// pieces, so it needs little more than the model's configuration, whatever its size.
//
// Blocking; for the command line. Errors name the file; an output that exists is never touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "peer/files/safetensors.h"
#include "peer/files/stored_model.h"

namespace starling::peer {

struct ExportOptions {
  std::filesystem::path checkpoint{};
  std::filesystem::path out{};  // a new folder
  std::string tokenizer{};  // as open_tokenizer() takes it; empty: the model's own, if it is found
  WeightsKind weights = WeightsKind::kFast;
  FloatType type = FloatType::kBf16;
  std::uint64_t file_bytes_max = 5'000'000'000;  // of weights in a file; a larger tensor is alone
  std::map<std::string, std::string> texts{};    // more small files of the folder, by name
};

struct ExportReport {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;     // of weights
  std::uint32_t files = 0;     // of weights
  std::string no_tokenizer{};  // why there is none; empty: it is there
};

Result<ExportReport> export_model(const ExportOptions& options);

// A new folder as it is named without the slash at its end, so that what lies beside it can be
// named after it.
std::filesystem::path without_last_slash(const std::filesystem::path& folder);

}  // namespace starling::peer

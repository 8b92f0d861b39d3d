// model_import: a folder of Hugging Face's format (peer/files/hugging_face.h) -> a checkpoint that
// holds weights and a configuration: to look at (eval, generate) or to start a run from
// (run.start).
//
// The tokenizer of the folder, where it has one that we can read, is put beside the checkpoint.
//
// Folders are foreign: files are bounded, names cannot lead out of the folder, every tensor must
// have the shape that config.json promises, none may be missing or unknown, every weight must be
// finite. The weights go from file to file in pieces of a few MiB: memory does not grow with the
// model. Blocking; for the command line. Errors name the file and the tensor, and leave no
// checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace starling::peer {

struct ImportOptions {
  std::filesystem::path folder{};
  std::filesystem::path out{};  // a new checkpoint
};

struct ImportReport {
  std::uint64_t parameters = 0;
  std::string section{};    // [model] of a configuration that starts from it
  std::string tokenizer{};  // its name; empty: there is none, because of
  std::string no_tokenizer{};
  std::filesystem::path tokenizer_file{};  // beside the checkpoint; empty: none, or bytes
};

Result<ImportReport> import_model(const ImportOptions& options);

}  // namespace starling::peer

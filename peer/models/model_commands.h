// The commands on finished checkpoints: eval, generate, average. A checkpoint carries the effective
// configuration of its run, so each of them needs the file and nothing else.
//
// An average is a checkpoint with the same layout, the same configuration and no state to train on;
// the tokenizer's file, where an input has it, is put beside it.
// Blocking; for the command line and the end of a swarm run. Errors name the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/files/stored_model.h"
#include "peer/models/model_runner.h"
#include "peer/models/sampling.h"

namespace starling::peer {

struct EvalOptions {
  std::filesystem::path checkpoint{};
  std::vector<std::string> data{};  // shards, or folders of shards
  RunnerChoice runner{};
  std::uint32_t batches = 0;  // evenly spread over the data; 0: all of it
  std::function<void(std::uint64_t done, std::uint64_t all)> progress{};  // in tokens
};

struct EvalReport {
  double loss = 0;  // mean cross entropy per token, in nats
  std::uint64_t tokens = 0;
  // Of the text that the tokens stand for; 0 where the shards' tokenizer is not beside them.
  std::uint64_t bytes = 0;

  double perplexity() const;
  double bits_per_token() const;
  double bits_per_byte() const;  // the same for every tokenizer; bytes must not be 0
};

Result<EvalReport> evaluate(const EvalOptions& options);

struct GenerateOptions {
  std::filesystem::path checkpoint{};
  std::string prompt{};
  std::string tokenizer{};  // as open_tokenizer() takes it; empty: the model's own
  RunnerChoice runner{};
  std::int64_t tokens = 200;
  SamplingOptions sampling{};
  std::uint64_t seed = 1;
};

// Gives the prompt, then what is drawn, in whole characters and as soon as there are any, to
// `write`. Ends at a token that ends a document. Special tokens in the prompt are special. A token
// costs one position and not the text before it again; beyond the model's context its older half is
// forgotten whenever it is full.
Status generate(const GenerateOptions& options, const std::function<void(std::string_view)>& write);

struct AverageOptions {
  std::filesystem::path out{};  // replaced if it exists
  // Checkpoints, or folders of peers: the newest of each. A folder of a run stands for its peers.
  std::vector<std::filesystem::path> inputs{};
  bool by_tokens = false;  // weighted by the tokens each has trained on; else equally
  bool any_run = false;    // also of runs that began from other weights
};

struct Contributor {
  std::filesystem::path input{};
  std::uint64_t peer = 0, step = 0, tokens = 0;
  std::string title{};
  double share = 0;  // of the average
};

struct AverageReport {
  std::uint64_t tokens = 0;  // of all inputs together
  std::vector<Contributor> contributors{};
};

// A checkpoint that would count twice is an error. Sums in double. The slow weights are averaged
// too if every input has them.
Result<AverageReport> average(const AverageOptions& options);

}  // namespace starling::peer

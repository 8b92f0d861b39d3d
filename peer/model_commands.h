// The commands on finished checkpoints: eval, generate, average. A checkpoint carries the effective
// configuration of its run, so each of them needs the file and nothing else.
//
// An average is a checkpoint with the same layout, the same configuration and no state to train on.
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
#include "peer/sampling.h"
#include "peer/stored_model.h"

namespace starling::peer {

// What `starling prepare` writes into its shards.
inline constexpr std::string_view kByteTokenizerName = "bytes";

struct EvalOptions {
  std::filesystem::path checkpoint{};
  std::vector<std::string> data{};  // shards, or folders of shards
  WeightsKind weights = WeightsKind::kFast;
  std::uint32_t batches = 0;  // evenly spread over the data; 0: all of it
};

struct EvalReport {
  double loss = 0;  // mean cross entropy per token, in nats
  std::uint64_t tokens = 0;
  bool token_is_byte = false;

  double perplexity() const;
  double bits_per_token() const;  // bits per byte where a token is a byte
};

Result<EvalReport> evaluate(const EvalOptions& options);

struct GenerateOptions {
  std::filesystem::path checkpoint{};
  std::string prompt{};
  WeightsKind weights = WeightsKind::kFast;
  std::int64_t tokens = 200;
  SamplingOptions sampling{};
  std::uint64_t seed = 1;
};

// Gives the prompt, then each token's bytes as soon as it is drawn, to `write`.
Status generate(const GenerateOptions& options, const std::function<void(std::string_view)>& write);

struct AverageOptions {
  std::filesystem::path out{};  // replaced if it exists
  std::vector<std::filesystem::path> inputs{};
  bool by_tokens = false;  // weighted by the tokens each has trained on; else equally
};

struct AverageReport {
  std::uint64_t tokens = 0;  // of all inputs together
};

// Sums in double. The slow weights are averaged too if every input has them.
Result<AverageReport> average(const AverageOptions& options);

}  // namespace starling::peer

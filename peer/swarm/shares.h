// Shares: how work that several unequal machines do together is dealt out, and how far exchanges of
// random pairs bring a swarm together. What `starling plan` reckons with.
//
// The rules are those of HAP (Zhang, Diao and others, "HAP: SPMD DNN training on heterogeneous GPU
// clusters with automated program synthesis", EuroSys 2024): proportional shares, the linear
// programme where machines also wait for their lines, and the rounding to whole pieces; and of
// Oobleck (Jang and others, "Oobleck: resilient distributed training of large models using pipeline
// templates", SOSP 2023): micro-batches of pipelines of different depth and speed.
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace starling::peer {

// x_d = F_d / sum F; speeds above zero, at least one.
std::vector<double> proportional_shares(std::span<const double> speeds);

// A machine's part in work that ends for all when the last one ends.
struct Worker {
  double speed = 0;          // units a second, above zero
  double fixed_seconds = 0;  // whatever its share: for its line
  double most = 1;           // share that it has room for
};

// The shares with which the slowest is done soonest:
//
//   minimise t   subject to   fixed_d + work x_d / speed_d <= t,   0 <= x_d <= most_d,   sum x = 1
//
// A linear programme with one constraint for each machine, which is solved by filling: all that
// have room work until the same t. Nothing: there is not room for all of the work.
struct BalancedShares {
  std::vector<double> shares;
  double seconds = 0;  // t
};
std::optional<BalancedShares> balanced_shares(std::span<const Worker> workers, double work);

// Whole numbers that sum to `pieces`, each less than one off x_d * pieces: all are rounded down,
// then one goes to whoever misses most. `shares` sum to one.
std::vector<std::uint64_t> sharding_round(std::span<const double> shares, std::uint64_t pieces);

// Pipelines of one kind.
struct PipelineKind {
  double seconds = 0;        // of an iteration with one micro-batch a stage
  std::uint32_t stages = 1;  // at least one
  std::uint32_t count = 1;   // pipelines, at least one
};

// Micro-batches of each pipeline of each kind, at least one, together `micro_batches`:
//
//   minimise sum_i (T_i / S_i n_i - m)^2   subject to   sum_i count_i n_i = micro_batches
//
// where m is what T_i / S_i n_i would be for all if they could be divided. Nothing: no numbers sum
// to that. Takes memory in proportion to kinds times micro_batches, and time to that times the
// largest count.
std::optional<std::vector<std::uint32_t>> pipeline_batches(std::span<const PipelineKind> kinds,
                                                           std::uint32_t micro_batches);

// What is left of the variance over peers after so many pair exchanges in all, each between a
// random two of them, each of whom moves by `mixing` of their difference. Of one exchange it takes
// 4 g (1 - g) / (N - 1); so of N / 2 of them, a round of pairs, about 2 g (1 - g) N / (N - 1).
double pair_contraction(double mixing, double peers, double exchanges);

}  // namespace starling::peer

// starling bench exchange: what exchanges cost. Two peers, processes of their own on the loopback,
// train on random tokens for a number of steps, in turn alone (outer.method = "local") and
// exchanging a fragment at every step. The steps are the same, so what differs is the exchanges,
// with the outer steps before them: processor time, and how much slower training became.
//
// Works in a temporary folder, which it removes. Blocking; for the command line. Errors: what
// kept a peer from running, with the end of its log; kUnavailable where nothing was exchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/bench/bench_step.h"

namespace starling::peer {

struct ExchangeBenchOptions {
  std::filesystem::path program{};  // what each peer runs: this binary
  std::string shape = "tiny";
  std::vector<std::string> overrides{};  // "section.key=value"
  std::uint32_t threads = 1;             // of each peer's operators
  std::uint64_t steps = 100;             // of each peer
  std::uint32_t rounds = 3;              // of one run alone and one with exchanges
};

// Of both peers together; what is per second is per second of training.
struct ExchangeRun {
  double tokens_per_second = 0;  // mean of the two
  double bytes_per_second = 0;   // sent by either, heads and membership included
  double bytes = 0;
  double cpu_seconds = 0;  // of the two processes, from their start to their end
  double held_share = 0;   // of their trainers' time, with anything but computing
  std::uint64_t exchanges = 0;
};

struct ExchangeBench {
  std::string shape;
  int threads = 0;
  std::uint64_t parameters = 0, steps = 0;
  std::vector<ExchangeRun> alone, exchanging;  // as many of each, in turn

  Spread of(const std::vector<ExchangeRun>& runs, double ExchangeRun::*field) const;
  Spread cpu_seconds_per_gigabyte() const;  // what exchanging took more than training alone
  Spread speed_ratio() const;               // exchanging over alone, round by round
};

Result<ExchangeBench> bench_exchange(const ExchangeBenchOptions& options);

}  // namespace starling::peer

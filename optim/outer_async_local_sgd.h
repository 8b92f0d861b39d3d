// AsyncLocalSgd: a server holds the weights. A peer trains H steps from them, sends its
// displacement, and goes on from the weights as they are then; it waits for nobody but the server.
// The server takes every displacement at once, and momentum only with every N-th: delayed Nesterov.
//
//   buffer += d
//   every N-th arrival:  m = mu * m + buffer / N;  buffer = 0
//                        weights += eta * ((1 - c * N + c) * mu * m + d / N)
//   any other:           weights += eta * (c * mu * m + d / N)
//
// Liu et al., "Asynchronous local-SGD training for language modeling", 2024 (arXiv 2401.09135),
// algorithm 3, with the sign of displacements. The authors took H = 50, N = the number of peers and
// c = 0 (0.1 did as well); mu and eta are those of DiLoCo here. With their dynamic local steps H
// follows each peer's speed (optim/schedule.h; outer.local_steps). A grace period that lets peers
// that end together share a version is not simulated.
//
// A driver keeps one server per fragment; its reply is a parcel with weights(), to take().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optim/outer_exchange.h"

namespace starling::optim {

class AsyncLocalSgd final : public OuterExchange {
 public:
  std::string_view name() const override { return "async_local_sgd"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  // `combined` is the server's reply.
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;
};

class DelayedNesterovServer {
 public:
  // A valid configuration; `peers` where it has no buffer of its own. `start`: the initial weights.
  DelayedNesterovServer(const OuterConfig& config, std::size_t peers, std::vector<float> start);

  void receive(std::span<const float> displacement);
  std::span<const float> weights() const { return weights_; }

 private:
  const float momentum_, learning_rate_, share_;  // mu, eta, c
  const std::uint64_t buffered_max_;              // N
  std::uint64_t arrivals_ = 0;
  std::vector<float> weights_, momentum_sum_, buffer_;
};

}  // namespace starling::optim

// TokenSource: where the trainer's batches come from. A training batch is a pure function of its
// index, so a restart needs nothing but the number of batches drawn; validation batches are few
// and always the same. Calls fill (sequences * tokens) inputs and as many targets, allocate
// nothing and cannot fail: what may be wrong with the data is found when it is opened.
// Thread: the trainer's.
#pragma once

#include <cstdint>
#include <span>

namespace starling::peer {

class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  virtual void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                              std::span<std::int32_t> targets) = 0;
  virtual std::int64_t validation_batches() const = 0;
  virtual void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                                std::span<std::int32_t> targets) = 0;
};

}  // namespace starling::peer

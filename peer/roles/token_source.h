// TokenSource: where the trainer's batches come from. Training batches come one after the other;
// `index` counts them, over restarts too. Which text the next one holds follows from the position,
// which goes into checkpoints. The next batch may be asked for while one is trained on; a
// checkpoint then holds the position from before it. Validation batches are few and always the
// same. Calls fill (sequences * tokens) inputs and as many targets, allocate nothing and cannot
// fail: what may be wrong with the data is found when it is opened. Thread: the trainer's.
#pragma once

#include <cstdint>
#include <span>

#include "peer/files/data_parts.h"

namespace starling::peer {

class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  virtual void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                              std::span<std::int32_t> targets) = 0;
  // Where it stands. Allocates nothing in a position that it has filled before. A source whose
  // batches follow from their index alone has no position.
  virtual void save(DataPosition&) const {}
  virtual std::int64_t validation_batches() const = 0;
  virtual void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                                std::span<std::int32_t> targets) = 0;
};

}  // namespace starling::peer

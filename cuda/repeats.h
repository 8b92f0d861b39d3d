// Repeats: who keeps what repeated work enqueues (LayerOps::repeat()), and enqueues it again
// without a call of what it is made of: CUDA graphs on a GPU (step_graphs.h).
//
// What is kept holds addresses: forget() when memory that it uses has been given back, before it is
// enqueued again. Thread: the trainer's.
#pragma once

#include <functional>

#include "base/device.h"
#include "model/layer_ops.h"

namespace starling::cuda {

class Repeats {
 public:
  Repeats() = default;
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;
  virtual ~Repeats() = default;

  virtual void run(Lane lane, const model::RepeatKey& key, const std::function<void()>& body) = 0;
  virtual void forget() = 0;
};

}  // namespace starling::cuda

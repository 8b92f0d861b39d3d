// MemoryPlan: what a peer will hold, part by part, before any of it is allocated. Everything is
// fixed by the configuration; nothing grows while it trains. Not counted: the program itself and
// the scratch of the operators (model/cpu_layer_ops.h), some MiB for each thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/param_layout.h"
#include "model/tensor.h"
#include "peer/config.h"
#include "peer/stripe_table.h"

namespace starling::peer {

struct MemoryPlan {
  struct Part {
    std::string name;
    std::size_t bytes = 0;
    bool on_device = false;  // in the memory of a GPU, where one trains
  };
  std::vector<Part> parts;

  void add(std::string name, std::size_t bytes, bool on_device = false);
  std::size_t total() const noexcept;
  std::size_t device_total() const noexcept;  // of the parts on the device
  // One line: "parameters 3.2 MiB, gradients 3.2 MiB, ...; 40 MiB in all".
  std::string describe() const;
};

// All of a peer with this configuration, whose model is laid out so, and whose device keeps
// activations in this type (LayerOps::activations()).
MemoryPlan plan_memory(const PeerConfig& config, const model::ParamLayout& layout,
                       const StripeTable& stripes, model::DType activations);

std::string in_mebibytes(std::size_t bytes);  // "3.2 MiB"

}  // namespace starling::peer

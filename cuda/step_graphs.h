// StepGraphs: Repeats whose work is kept as CUDA graphs and launched whole, so that the host
// enqueues one thing and not a thousand. A key's first call just runs: code is loaded and scratch
// grows then. Its second is recorded, and all that follow replay that. Inside the module only.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>

#include "cuda/cuda_device.h"
#include "cuda/repeats.h"

namespace starling::cuda {

class StepGraphs final : public Repeats {
 public:
  explicit StepGraphs(CudaDevice& device) : device_(device) {}
  ~StepGraphs() override { forget_all(); }

  void run(Lane lane, const model::RepeatKey& key, const std::function<void()>& body) override;
  void forget() override { forget_all(); }

 private:
  // Far more than a training run has; where there are more, the ones before are forgotten.
  static constexpr std::size_t kGraphsMax = 8;

  cudaGraphExec_t record(Lane lane, const std::function<void()>& body);
  void forget_all();

  CudaDevice& device_;
  std::map<model::RepeatKey, cudaGraphExec_t> graphs_;  // null: has run once
};

}  // namespace starling::cuda

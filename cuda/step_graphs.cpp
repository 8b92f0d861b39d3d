#include "cuda/step_graphs.h"

namespace starling::cuda {

void StepGraphs::run(Lane lane, const model::RepeatKey& key, const std::function<void()>& body) {
  auto known = graphs_.find(key);
  if (known == graphs_.end()) {
    if (graphs_.size() >= kGraphsMax) forget_all();
    graphs_.emplace(key, nullptr);
    return body();
  }
  if (known->second == nullptr) known->second = record(lane, body);
  STARLING_CUDA("step", lane, cudaGraphLaunch(known->second, device_.stream(lane)));
}

// Nobody else may use the lane meanwhile, nor allocate from this device, which waits for its lanes.
cudaGraphExec_t StepGraphs::record(Lane lane, const std::function<void()>& body) {
  cudaStream_t stream = device_.stream(lane);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  STARLING_CUDA("recording a step", lane,
                cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  body();
  STARLING_CUDA("recording a step", lane, cudaStreamEndCapture(stream, &graph));
  STARLING_CUDA("recording a step", lane, cudaGraphInstantiate(&recorded, graph, 0));
  STARLING_CUDA("recording a step", lane, cudaGraphDestroy(graph));
  return recorded;
}

void StepGraphs::forget_all() {
  if (graphs_.empty()) return;
  device_.drain();
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) {
      STARLING_CUDA("forgetting a step", Lane::kCompute, cudaGraphExecDestroy(graph));
    }
  }
  graphs_.clear();
}

}  // namespace starling::cuda

#include "cuda/lt_products.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "cuda/column_major.h"
#include "cuda/gpu_memory.h"

namespace starling::cuda {

namespace {

using model::DType;

constexpr std::uintptr_t kAlignmentMax = 256;  // more changes nothing

// A product on its way to the library, whose calls for it cannot fail but for a bug or a broken
// device, and then end the process.
struct Request {
  const ColumnMajorProduct& product;
  Lane lane;
  cudaStream_t stream;

  void check(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) failed(status, call);
  }
  [[noreturn]] void failed(cublasStatus_t status, const char* call) const {
    std::string problem = cublasLtGetStatusString(status);
    const cudaError_t before = cudaStreamQuery(stream);  // of work that failed before it
    if (before != cudaSuccess && before != cudaErrorNotReady) problem += "; " + problem_of(before);
    end_process({name_of(product), call, problem}, lane);
  }
};

std::uintptr_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return std::min(std::uintptr_t{1} << std::countr_zero(address | kAlignmentMax), kAlignmentMax);
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

std::uintptr_t alignment(const ColumnMajorProduct& product) {
  return std::min({alignment(product.a.data), alignment(product.b.data),
                   alignment(product.out.data), alignment(product.addend.data)});
}

// What decides which algorithm is best.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DType, DType,
                       std::uintptr_t>;
Key key_of(const ColumnMajorProduct& product) {
  return {product.out.rows,     product.out.columns,  product.depth(),
          product.a.transposed, product.b.transposed, product.adds,
          product.a.dtype,      product.out.dtype,    alignment(product)};
}

cublasLtMatrixLayout_t layout_of(const Request& request, const ColumnMajor& matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  request.check(cublasLtMatrixLayoutCreate(&layout, type_of(matrix.dtype),
                                           static_cast<std::uint64_t>(matrix.rows),
                                           static_cast<std::uint64_t>(matrix.columns), matrix.rows),
                "cublasLtMatrixLayoutCreate");
  return layout;
}

// A product of one shape: what the library calls for each time.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

// Deep sums may be split: the parts are floats until all are there, and added in one order. But not
// where tiles do not divide the depth: there cuBLASLt 12 and 13 were seen to leave out the rest, on
// H100 and newer GPUs (github.com/facebookexperimental/triton, pull request 2767).
std::uint32_t reductions_for(std::int64_t depth) {
  constexpr std::int64_t kTile = 128;  // the deepest, or a multiple of it
  return depth % kTile == 0 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                            : CUBLASLT_REDUCTION_SCHEME_NONE;
}

void forget(const Plan& plan) {
  cublasLtMatrixLayoutDestroy(plan.out);
  cublasLtMatrixLayoutDestroy(plan.b);
  cublasLtMatrixLayoutDestroy(plan.a);
  cublasLtMatmulDescDestroy(plan.operation);
}

// The first that can be had is the one the library thinks best. None: it has nothing for this GPU.
constexpr int kProposalsMax = 8;
struct Proposals {
  std::array<cublasLtMatmulHeuristicResult_t, kProposalsMax> of{};
  int count = 0;
};
Proposals ask(cublasLtHandle_t library, const Request& request, const Plan& plan) {
  const auto aligned = static_cast<std::uint32_t>(alignment(request.product));
  cublasLtMatmulPreference_t preference = nullptr;
  request.check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    request.check(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions_for(request.product.depth()));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned);
  Proposals proposals;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library, plan.operation, plan.a, plan.b, plan.out, plan.out, preference, kProposalsMax,
      proposals.of.data(), &proposals.count);
  const bool nothing = status == CUBLAS_STATUS_NOT_SUPPORTED;
  if (!nothing) request.check(status, "cublasLtMatmulAlgoGetHeuristic");
  const auto end = proposals.of.begin() + proposals.count;
  const auto valid = std::remove_if(proposals.of.begin(), end, [](const auto& proposal) {
    return proposal.state != CUBLAS_STATUS_SUCCESS;
  });
  proposals.count = static_cast<int>(valid - proposals.of.begin());
  cublasLtMatmulPreferenceDestroy(preference);
  return proposals;
}

// Milliseconds of one of some calls of `work` in a row, which only enqueues on the stream, so that
// the device does not wait for the host in between; infinite where it says that it cannot.
template <class Work>
float time_of(const Request& request, const Work& work) {
  constexpr int kCalls = 5;
  if (work() != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<float>::infinity();
  const auto check = [&](cudaError_t error, const char* call) {
    check_call(error, "trying products", request.lane, call);
  };
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  check(cudaEventRecord(start, request.stream), "cudaEventRecord");
  for (int call = 0; call < kCalls; ++call) request.check(work(), "cublasLtMatmul");
  check(cudaEventRecord(end, request.stream), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  check(cudaEventDestroy(start), "cudaEventDestroy");
  return milliseconds / kCalls;
}

class LtProducts final : public Products {
 public:
  LtProducts(CudaDevice& device, cublasLtHandle_t library, Buffer workspace)
      : device_(&device), library_(library), workspace_(std::move(workspace)) {}
  ~LtProducts() override {
    for (const auto& [key, plan] : plans_) forget(plan);
    cublasLtDestroy(library_);
  }

  // A library older than the GPU may have nothing for it. Asked, nothing is computed.
  bool can_multiply(DType dtype) {
    constexpr std::int64_t kSide = 128;
    const ColumnMajor square{workspace_.data(), dtype, kSide, kSide, false};
    const ColumnMajorProduct product{square, square, square, square, false};
    const Request request{product, Lane::kCompute, device_->stream(Lane::kCompute)};
    const Plan plan = described(request);
    const int count = ask(library_, request, plan).count;
    forget(plan);
    return count > 0;
  }

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  bool rehearses() const override { return true; }
  void rehearse(bool on) override { rehearses_now_ = on; }
  void multiply(Lane lane, const Product& product) override {
    const ColumnMajorProduct as = column_major(product);
    // Before the library is asked: a plan is of the GPU that the thread means.
    const Request request{as, lane, device_->stream(lane)};
    const Plan& plan = plan_of(request);
    request.check(enqueue(request, plan, plan.algorithm), "cublasLtMatmul");
  }

 private:
  cublasStatus_t enqueue(const Request& request, const Plan& plan,
                         const cublasLtMatmulAlgo_t& algorithm) {
    const ColumnMajorProduct& as = request.product;
    const float one = 1.0F, keep = as.adds ? 1.0F : 0.0F;
    return cublasLtMatmul(library_, plan.operation, &one, as.a.data, plan.a, as.b.data, plan.b,
                          &keep, as.addend.data, plan.out, const_cast<void*>(as.out.data), plan.out,
                          &algorithm, workspace_.data(), workspace_.bytes(), request.stream);
  }

  // Another than the first has to be faster by more than what chance makes of the same.
  cublasLtMatmulAlgo_t chosen_of(const Request& request, const Plan& plan,
                                 const Proposals& proposals) {
    constexpr float kGain = 0.98F;
    if (!rehearses_now_) return proposals.of[0].algo;
    int best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (int i = 0; i < proposals.count; ++i) {
      const cublasLtMatmulAlgo_t& algorithm = proposals.of[static_cast<std::size_t>(i)].algo;
      const float taken = time_of(request, [&] { return enqueue(request, plan, algorithm); });
      if (taken >= kGain * least) continue;
      best = i;
      least = taken;
    }
    return proposals.of[static_cast<std::size_t>(best)].algo;
  }

  const Plan& plan_of(const Request& request) {
    const Key key = key_of(request.product);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    Plan plan = described(request);
    const Proposals proposals = ask(library_, request, plan);
    if (proposals.count == 0) {
      request.failed(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    }
    plan.algorithm = chosen_of(request, plan, proposals);
    return plans_.emplace(key, plan).first->second;
  }

  // But for its algorithm.
  static Plan described(const Request& request) {
    const ColumnMajorProduct& product = request.product;
    Plan plan;
    // Of floats the products are those of floats, not of what tensor cores round them to.
    request.check(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  "cublasLtMatmulDescCreate");
    const auto turn = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t how = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      request.check(cublasLtMatmulDescSetAttribute(plan.operation, attribute, &how, sizeof(how)),
                    "cublasLtMatmulDescSetAttribute");
    };
    turn(CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed);
    turn(CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed);
    plan.a = layout_of(request, product.a);
    plan.b = layout_of(request, product.b);
    plan.out = layout_of(request, product.out);
    return plan;
  }

  CudaDevice* device_;  // never null
  cublasLtHandle_t library_;
  Buffer workspace_;
  std::map<Key, Plan> plans_;
  bool rehearses_now_ = false;
};

}  // namespace

Result<std::unique_ptr<Products>> make_lt_products(CudaDevice& device) {
  // First of all: it makes this GPU the one that the library finds.
  Result<Buffer> workspace = device.allocate(MemoryKind::kDevice, kWorkspaceBytes);
  if (!workspace.ok()) {
    return std::move(workspace).error().with_context("workspace of matrix products");
  }
  cublasLtHandle_t library = nullptr;
  if (const cublasStatus_t status = cublasLtCreate(&library); status != CUBLAS_STATUS_SUCCESS) {
    const bool full = status == CUBLAS_STATUS_ALLOC_FAILED;
    return Error(full ? ErrorCode::kExhausted : ErrorCode::kUnavailable,
                 std::string("cuBLASLt does not start: ") + cublasLtGetStatusString(status));
  }
  auto products = std::make_unique<LtProducts>(device, library, std::move(workspace).value());
  if (!products->can_multiply(DType::kBf16) || !products->can_multiply(DType::kF32)) {
    return Error(ErrorCode::kUnavailable,
                 "cuBLASLt " + std::to_string(cublasLtGetVersion()) + " has no products for " +
                     std::string(device.name()) +
                     "; install the cuBLAS of a newer CUDA Toolkit, or set device.name = \"cpu\"");
  }
  return std::unique_ptr<Products>(std::move(products));
}

}  // namespace starling::cuda

#include "cuda/lt_products.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "cuda/column_major.h"

namespace starling::cuda {

namespace {

using model::DType;

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr std::uintptr_t kAlignmentMax = 256;                   // more changes nothing

[[noreturn]] void library_failed(cublasStatus_t status, const char* call) {
  const std::string text =
      std::string("cuBLASLt, ") + call + ": " + cublasLtGetStatusString(status);
  assertion_failed(text.c_str(), __FILE__, __LINE__);
}
void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) library_failed(status, call);
}

std::uintptr_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return std::min(std::uintptr_t{1} << std::countr_zero(address | kAlignmentMax), kAlignmentMax);
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

// What decides which algorithm is best.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DType, DType,
                       std::uintptr_t>;
Key key_of(const ColumnMajorProduct& product) {
  const std::int64_t depth = product.a.transposed ? product.a.rows : product.a.columns;
  const std::uintptr_t aligned =
      std::min({alignment(product.a.data), alignment(product.b.data), alignment(product.out.data),
                alignment(product.addend.data)});
  return {product.out.rows,     product.out.columns,  depth,
          product.a.transposed, product.b.transposed, product.adds,
          product.a.dtype,      product.out.dtype,    aligned};
}

cublasLtMatrixLayout_t layout_of(const ColumnMajor& matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type_of(matrix.dtype),
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

void choose(cublasLtHandle_t library, Plan& plan, std::uint32_t aligned) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Parts of a deep sum are floats until all are there, and added in one order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library, plan.operation, plan.a, plan.b, plan.out, plan.out, preference, 1, &best, &found);
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) library_failed(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  plan.algorithm = best.algo;
  cublasLtMatmulPreferenceDestroy(preference);
}

class LtProducts final : public Products {
 public:
  LtProducts(CudaDevice& device, cublasLtHandle_t library, Buffer workspace)
      : device_(&device), library_(library), workspace_(std::move(workspace)) {}
  ~LtProducts() override {
    for (const auto& [key, plan] : plans_) {
      cublasLtMatrixLayoutDestroy(plan.out);
      cublasLtMatrixLayoutDestroy(plan.b);
      cublasLtMatrixLayoutDestroy(plan.a);
      cublasLtMatmulDescDestroy(plan.operation);
    }
    cublasLtDestroy(library_);
  }

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  void multiply(Lane lane, const Product& product) override {
    const ColumnMajorProduct as = column_major(product);
    const Plan& plan = plan_of(as);
    const float one = 1.0F, keep = as.adds ? 1.0F : 0.0F;
    check(cublasLtMatmul(library_, plan.operation, &one, as.a.data, plan.a, as.b.data, plan.b,
                         &keep, as.addend.data, plan.out, const_cast<void*>(as.out.data), plan.out,
                         &plan.algorithm, workspace_.data(), workspace_.bytes(),
                         device_->stream(lane)),
          "cublasLtMatmul");
  }

 private:
  const Plan& plan_of(const ColumnMajorProduct& product) {
    const Key key = key_of(product);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    Plan plan;
    // Of floats the products are those of floats, not of what tensor cores round them to.
    check(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const auto turn = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t how = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check(cublasLtMatmulDescSetAttribute(plan.operation, attribute, &how, sizeof(how)),
            "cublasLtMatmulDescSetAttribute");
    };
    turn(CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed);
    turn(CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed);
    plan.a = layout_of(product.a);
    plan.b = layout_of(product.b);
    plan.out = layout_of(product.out);
    choose(library_, plan, static_cast<std::uint32_t>(std::get<std::uintptr_t>(key)));
    return plans_.emplace(key, plan).first->second;
  }

  CudaDevice* device_;  // never null
  cublasLtHandle_t library_;
  Buffer workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace

Result<std::unique_ptr<Products>> make_lt_products(CudaDevice& device) {
  cublasLtHandle_t library = nullptr;
  if (const cublasStatus_t status = cublasLtCreate(&library); status != CUBLAS_STATUS_SUCCESS) {
    return Error(ErrorCode::kUnavailable,
                 std::string("cuBLASLt does not start: ") + cublasLtGetStatusString(status));
  }
  Result<Buffer> workspace = device.allocate(MemoryKind::kDevice, kWorkspaceBytes);
  if (!workspace.ok()) {
    cublasLtDestroy(library);
    return std::move(workspace).error().with_context("workspace of matrix products");
  }
  return std::unique_ptr<Products>(
      std::make_unique<LtProducts>(device, library, std::move(workspace).value()));
}

}  // namespace starling::cuda

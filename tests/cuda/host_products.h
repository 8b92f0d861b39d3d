// HostProducts: what stands in for the library of matrix products where kernels run on the host.
#pragma once

#include "cuda/products.h"

namespace starling::cuda {

class HostProducts final : public Products {
 public:
  void multiply(Lane lane, const Product& product) override;
};

}  // namespace starling::cuda

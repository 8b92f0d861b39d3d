// StripeTable: the cut of a model's parameters into stripes, the unit that trainer, mixer and
// protocol share. Fragments are contiguous in the arena; each is cut, from its start, into stripes
// of optim::kStripeParameters parameters, the last one shorter. Constant after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "model/param_layout.h"
#include "optim/wire_format.h"

namespace starling::peer {

struct Stripe {
  FragmentId fragment;
  std::uint32_t index = 0;  // within the fragment
  model::Range range;       // in the arena
};

class StripeTable {
 public:
  explicit StripeTable(const model::ParamLayout& layout);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(stripes_.size()); }
  const Stripe& operator[](std::uint32_t stripe) const;
  std::uint16_t fragments() const noexcept { return static_cast<std::uint16_t>(first_.size() - 1); }
  // Stripes [first, first + count) belong to the fragment.
  std::uint32_t first_of(FragmentId fragment) const;
  std::uint32_t count_of(FragmentId fragment) const;
  std::vector<std::uint32_t> counts() const;                               // one entry per fragment
  std::size_t parameters_max() const noexcept { return parameters_max_; }  // of the largest stripe

 private:
  std::vector<Stripe> stripes_;
  std::vector<std::uint32_t> first_;  // per fragment, and one past the end
  std::size_t parameters_max_ = 0;
};

}  // namespace starling::peer

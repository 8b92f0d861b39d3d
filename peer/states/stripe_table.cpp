#include "peer/states/stripe_table.h"

#include <algorithm>

#include "base/assert.h"

namespace starling::peer {

StripeTable::StripeTable(const model::ParamLayout& layout) {
  for (std::uint16_t fragment = 0; fragment < layout.fragments(); ++fragment) {
    first_.push_back(size());
    const model::Range range = layout.fragment(FragmentId{fragment});
    std::uint32_t index = 0;
    for (std::size_t done = 0; done < range.count; ++index) {
      const std::size_t count = std::min(optim::kStripeParameters, range.count - done);
      stripes_.push_back({FragmentId{fragment}, index, {range.first + done, count}});
      parameters_max_ = std::max(parameters_max_, count);
      done += count;
    }
  }
  first_.push_back(size());
}

const Stripe& StripeTable::operator[](std::uint32_t stripe) const {
  STARLING_ASSERT(stripe < stripes_.size());
  return stripes_[stripe];
}

std::uint32_t StripeTable::first_of(FragmentId fragment) const {
  STARLING_ASSERT(fragment.value < fragments());
  return first_[fragment.value];
}

std::uint32_t StripeTable::count_of(FragmentId fragment) const {
  return first_[fragment.value + std::size_t{1}] - first_of(fragment);
}

std::vector<std::uint32_t> StripeTable::counts() const {
  std::vector<std::uint32_t> counts;
  for (std::uint16_t f = 0; f < fragments(); ++f) counts.push_back(count_of(FragmentId{f}));
  return counts;
}

}  // namespace starling::peer

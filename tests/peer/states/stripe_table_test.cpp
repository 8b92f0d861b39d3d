#include "peer/states/stripe_table.h"

#include <doctest/doctest.h>

namespace starling::peer {

namespace {

model::ParamLayout layout_of(std::uint16_t fragments) {
  const model::LlamaConfig config{.vocabulary = 256,
                                  .width = 256,
                                  .layers = 3,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .ffn = 704,
                                  .context = 64};
  return model::ParamLayout::plan(config, fragments).value();
}

}  // namespace

TEST_CASE("stripes cover every fragment once, in order, and none is larger than a frame holds") {
  for (std::uint16_t fragments = 1; fragments <= 4; ++fragments) {
    CAPTURE(fragments);
    const auto layout = layout_of(fragments);
    const StripeTable stripes(layout);
    CHECK(stripes.fragments() == fragments);
    std::size_t next = 0;
    for (std::uint32_t stripe = 0; stripe < stripes.size(); ++stripe) {
      CHECK(stripes[stripe].range.first == next);
      CHECK(stripes[stripe].range.count > 0);
      CHECK(stripes[stripe].range.count <= optim::kStripeParameters);
      CHECK(stripes[stripe].range.count <= stripes.parameters_max());
      next += stripes[stripe].range.count;
    }
    CHECK(next == layout.elements());
  }
}

TEST_CASE("a stripe knows its fragment and its place in it") {
  const auto layout = layout_of(4);
  const StripeTable stripes(layout);
  const auto counts = stripes.counts();
  REQUIRE(counts.size() == 4);
  for (std::uint16_t f = 0; f < 4; ++f) {
    const FragmentId fragment{f};
    CHECK(counts[f] == stripes.count_of(fragment));
    CHECK(stripes[stripes.first_of(fragment)].range.first == layout.fragment(fragment).first);
    for (std::uint32_t i = 0; i < counts[f]; ++i) {
      CHECK(stripes[stripes.first_of(fragment) + i].fragment == fragment);
      CHECK(stripes[stripes.first_of(fragment) + i].index == i);
    }
  }
}

}  // namespace starling::peer

#include "gossip/code_agreement.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

constexpr std::uint8_t kNoCode = 9;  // in no table

// From most to fewest bits.
GossipConfig config() {
  GossipConfig config;
  config.format = 20;
  config.codes = {{{20, 1}, {21, 3}, {22, 4}, {23, 1}}};
  return config;
}

}  // namespace

TEST_CASE("what is offered is wished for and known, or has more bits") {
  const GossipConfig any = config();
  const CodeAgreement latest(any, 4);
  for (const int wish : {20, 21, 22, 23, int{kNoCode}}) {
    CHECK(latest.offered(static_cast<std::uint8_t>(wish)) == wish);
  }
  CHECK(CodeAgreement(any, 3).offered(22) == 21);
  CHECK(CodeAgreement(any, 2).offered(22) == 20);
  CHECK(CodeAgreement(any, 2).offered(23) == 23);
}

TEST_CASE("a partner from before codes agreed is offered the configured format and nothing else") {
  const GossipConfig any = config();
  const CodeAgreement first(any, CodeAgreement::kCodesAgree - 1);
  for (const int wish : {20, 21, 22, 23})
    CHECK(first.offered(static_cast<std::uint8_t>(wish)) == 20);
  CHECK(first.common(20, 20) == 20);
  CHECK(!first.common(20, 23).has_value());
}

TEST_CASE("a pair takes the code with fewer bits, whoever wishes for it") {
  const GossipConfig any = config();
  const CodeAgreement latest(any, 4);
  CHECK(latest.common(20, 22) == 22);
  CHECK(latest.common(22, 20) == 22);
  CHECK(latest.common(kNoCode, kNoCode) == kNoCode);
  CHECK(!latest.common(20, kNoCode).has_value());
  CHECK(!CodeAgreement(any, 3).common(20, 22).has_value());  // of which version 3 knows nothing
}

}  // namespace starling::gossip

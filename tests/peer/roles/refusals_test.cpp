#include "peer/roles/refusals.h"

#include <doctest/doctest.h>

#include <string_view>

namespace starling::peer {

using gossip::RefuseReason;

TEST_CASE("every refusal names the setting that mends it, at the side where it is") {
  const auto names = [](RefuseReason reason, std::string_view setting, bool by_us = false) {
    return remedy_of(reason, by_us).find(setting) != std::string_view::npos;
  };
  CHECK(names(RefuseReason::kProtocol, "the older starling"));
  CHECK(names(RefuseReason::kRun, "run.seed"));
  CHECK(names(RefuseReason::kModel, "[model]"));
  CHECK(names(RefuseReason::kLayout, "outer.fragments"));
  CHECK(names(RefuseReason::kSelf, "trust.key"));
  CHECK(names(RefuseReason::kSecret, "trust.secret"));
  CHECK(names(RefuseReason::kNotAllowed, "this peer's key"));
  CHECK(names(RefuseReason::kNotAllowed, "add its key", true));
}

}  // namespace starling::peer

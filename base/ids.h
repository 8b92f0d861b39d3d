// Ids: integers that cannot be mixed up. Each has its own type; none converts to another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace starling {

template <class Tag, class Rep>
struct Id {
  Rep value{};
  friend auto operator<=>(const Id&, const Id&) = default;
};

using PeerId = Id<struct PeerTag, std::uint64_t>;          // zero: nobody
using FragmentId = Id<struct FragmentTag, std::uint16_t>;  // index into the fragments of a model
using StepIndex = Id<struct StepTag, std::uint64_t>;       // inner steps done by this peer

}  // namespace starling

template <class Tag, class Rep>
struct std::hash<starling::Id<Tag, Rep>> {
  std::size_t operator()(const starling::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

// What `starling top` draws of a peer's report (roles/network_status.cpp): the peer, what it knows
// of the others, what was exchanged just now, and what to look at.
//
// A pure function of the report, which may come from a stranger: fields that are missing or of
// another kind are shown as "-", and only printable ASCII of a text is drawn.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace starling::peer {

struct TopSize {
  std::size_t columns = 80;
  std::size_t rows = 0;  // 0: as many as there are
};

// `before` is an earlier report, for what is counted per second; an empty object: none, and the
// mean since the peer's start is shown. Every line ends with a line feed.
std::string top_screen(const nlohmann::json& report, const nlohmann::json& before, TopSize size);

}  // namespace starling::peer

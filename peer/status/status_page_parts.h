// What the status page is made of, as CMake has embedded it (embed_page.cmake).
#pragma once

#include <string_view>

namespace starling::peer {

extern const std::string_view kPageHtml, kPageStyle, kPageScript;

}  // namespace starling::peer

// The manual page, made of the table behind `--help`, so that nothing is written twice: a page of
// section 1 in the macros of man(7), without a date, so that the same program gives the same bytes.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "peer/commands/command_text.h"

namespace starling::peer {

std::string manual_page(const CommandText& program, std::string_view version);

}  // namespace starling::peer

// Numbers and names as people read them, in logs, tables and errors. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace starling::peer {

// "512 B", "1.2 MiB"; "950", "12.3 k", "4.56 M".
std::string human_bytes(double bytes);
std::string human_bytes(std::uint64_t bytes);
std::string human_count(double count);
// "1 peer", "2 peers".
std::string counted(std::uint64_t count, std::string_view what);
// Control characters, except line feed and tab, as '?', so that bytes of a model or a child cannot
// drive the terminal.
std::string printable(std::string_view text);
// "40 s left", "12 min left", "3.1 h left".
std::string time_left(double seconds);

}  // namespace starling::peer

// How much memory this machine has left, and this process took. Reads files of the kernel; for
// starts and tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace starling::peer {

// Of a file that the kernel makes as it is read, its first 64 KiB; empty: there is none.
std::string system_text(const char* path);
// The number behind `key` in a text like that of /proc/meminfo; empty: there is none.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);
// What processes can have without swapping, within the limit of the container; empty: unknown.
std::optional<std::uint64_t> memory_available();
std::uint64_t peak_memory();  // bytes of this process that were resident at most; 0: not known

}  // namespace starling::peer

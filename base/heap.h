// What the C library does with memory that was freed. Thread: any; at the start of a process.
#pragma once

namespace starling {

// From now on it is kept for what is allocated next, up to 64 MiB of each of glibc's arenas. As
// glibc comes it goes back to the system as soon as some messages of a link are freed, and the next
// ones are given new pages, each of which the kernel has to clear. Of another C library: nothing.
void keep_freed_memory() noexcept;

}  // namespace starling

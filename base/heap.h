// What the C library does with memory that was freed. Thread: any; at the start of a process.
#pragma once

namespace starling {

// Keeps up to 64 MiB of freed memory in each glibc arena for later allocations. By default glibc
// returns it to the system soon after some link messages are freed, and the kernel must then clear
// new pages for the next ones. Does nothing with other C libraries.
void keep_freed_memory() noexcept;

}  // namespace starling

// The calling thread as the system knows it: its name and the processors it may run on. Threads
// that it starts inherit the processors. What the system refuses is logged, and the thread goes on
// as it was: both are wishes.
#pragma once

#include <span>
#include <vector>

namespace starling {

// In rising order. Empty: the system does not say (more than CPU_SETSIZE of them).
std::vector<int> allowed_processors();
// Nothing for an empty list.
void keep_this_thread_on(std::span<const int> processors);
// What tools show (`top -H`); at most 15 characters.
void name_this_thread(const char* name);

}  // namespace starling

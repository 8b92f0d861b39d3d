#include "base/this_thread.h"

#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>

#include "base/log.h"

namespace starling {

std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  return processors;
}

void keep_this_thread_on(std::span<const int> processors) {
  if (processors.empty()) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int processor : processors) {
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &wanted);
  }
  if (::pthread_setaffinity_np(::pthread_self(), sizeof(wanted), &wanted) == 0) return;
  log_warning("a thread cannot be kept on the processors {}", fmt::join(processors, ","));
}

void name_this_thread(const char* name) {
  if (::pthread_setname_np(::pthread_self(), name) == 0) return;
  log_warning("a thread cannot be named {}", name);
}

}  // namespace starling

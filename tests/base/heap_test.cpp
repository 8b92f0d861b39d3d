#include "base/heap.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace starling {

namespace {

long pages_given() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// As many as a link has under way, written to and freed.
void use_messages() {
  constexpr std::size_t kMessage = std::size_t{1} << 20, kCount = 16;
  std::vector<char*> messages;
  for (std::size_t i = 0; i < kCount; ++i) {
    messages.push_back(new char[kMessage]);
    std::memset(messages.back(), 1, kMessage);
  }
  for (const char* message : messages) delete[] message;
}

}  // namespace

TEST_CASE("messages that follow one another are given no new pages") {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: another allocator than glibc's");
  return;
#endif
  constexpr long kRounds = 20;
  const long pages = (16 << 20) / ::sysconf(_SC_PAGESIZE);  // of one round
  keep_freed_memory();
  use_messages();
  const long before = pages_given();
  for (long round = 0; round < kRounds; ++round) use_messages();
  CHECK(pages_given() - before < pages);
}

}  // namespace starling

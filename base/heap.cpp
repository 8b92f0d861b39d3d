#include "base/heap.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace starling {

void keep_freed_memory() noexcept {
#if defined(__GLIBC__)
  constexpr int kKept = 64 << 20;
  // The largest that glibc takes: what is larger is mapped by itself, and given back.
  constexpr int kMapped = 32 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
#endif
}

}  // namespace starling

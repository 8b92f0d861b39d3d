// A resource that this process runs out of, for a test: while it lives there is no more of it than
// so much. Of RLIMIT_FSIZE, a disk that is full: no file grows beyond so many bytes, and writes end
// there or fail.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

namespace starling::testing {

class ResourceLimit {
 public:
  ResourceLimit(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    if (resource == RLIMIT_FSIZE) ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(resource_, &before_) == 0);
    rlimit small = before_;
    small.rlim_cur = most;
    REQUIRE(::setrlimit(resource_, &small) == 0);
  }
  ~ResourceLimit() { CHECK(::setrlimit(resource_, &before_) == 0); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

}  // namespace starling::testing

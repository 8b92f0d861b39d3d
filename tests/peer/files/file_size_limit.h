// A disk that is full, for a test: while it lives no file of this process grows beyond so many
// bytes, and writes end there or fail.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

namespace starling::testing {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit small = before_;
    small.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~FileSizeLimit() { CHECK(::setrlimit(RLIMIT_FSIZE, &before_) == 0); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace starling::testing

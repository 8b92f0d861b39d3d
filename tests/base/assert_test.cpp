#include "base/assert.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace {

// What becomes of a process that asserts `fact`: the signal that ended it, or 0.
int signal_after_asserting(bool fact) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test framework has its own handler, inherited here
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
    STARLING_ASSERT(fact);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("a false assertion aborts the process, in every kind of build") {
  CHECK(signal_after_asserting(false) == SIGABRT);
}

TEST_CASE("a true assertion does nothing and is evaluated once") {
  CHECK(signal_after_asserting(true) == 0);
  int evaluated = 0;
  STARLING_ASSERT(++evaluated == 1);
  CHECK(evaluated == 1);
}

#include "base/this_thread.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <string>
#include <thread>
#include <vector>

namespace starling {

TEST_CASE("a thread is kept on processors and passes them on to those it starts") {
  const std::vector<int> before = allowed_processors();
  REQUIRE(!before.empty());
  std::jthread([&] {
    keep_this_thread_on({});
    CHECK(allowed_processors() == before);
    const std::vector<int> last = {before.back()};
    keep_this_thread_on(last);
    CHECK(allowed_processors() == last);
    std::jthread([&] { CHECK(allowed_processors() == last); }).join();
  }).join();
  CHECK(allowed_processors() == before);
}

TEST_CASE("what the system refuses changes nothing") {
  const std::vector<int> before = allowed_processors();
  keep_this_thread_on(std::vector<int>{-1, 1 << 30});
  CHECK(allowed_processors() == before);
  std::jthread([] {
    name_this_thread("short");
    name_this_thread("much longer than the system takes");
    char name[32] = {};
    ::pthread_getname_np(::pthread_self(), name, sizeof(name));
    CHECK(std::string(name) == "short");
  }).join();
}

}  // namespace starling

#include "peer/models/distinct_peers.h"

#include <doctest/doctest.h>

#include <vector>

namespace starling::peer {

TEST_CASE("two files of one peer are named, and files of nobody may be many") {
  std::vector<PeerFile> files{{"mean", 0}, {"a", 1}, {"import", 0}, {"b", 2}};
  CHECK(check_distinct(files).ok());
  files.push_back({"copy", 1});
  CHECK(check_distinct(files).error().message() ==
        "a and copy are of one peer, which would count twice: leave one out");
}

}  // namespace starling::peer

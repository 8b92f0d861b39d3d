#include "peer/machine/processor_claims.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

using List = std::vector<int>;

TEST_CASE("a processor that one has claimed is taken for another, until it is given back") {
  const ScratchFolder folder;
  ProcessorClaims first(folder.path() / "claims"), second(folder.path() / "claims");
  CHECK(first.claim(List{0, 1, 2}).empty());
  first.give_back({});
  CHECK(second.claim(List{1, 2, 3}) == List{1, 2});
  second.give_back({});
  first.give_back(List{2});
  CHECK(second.claim(List{1, 2}) == List{1});
  second.give_back({});
  CHECK(first.claim(List{2, 3}) == List{2, 3});
  first = ProcessorClaims();  // ends
  CHECK(second.claim(List{0, 1}).empty());
}

TEST_CASE("of two that claim at once the second waits for what the first does not need") {
  const ScratchFolder folder;
  ProcessorClaims first(folder.path() / "claims"), second(folder.path() / "claims");
  CHECK(first.claim(List{0, 1, 2}).empty());
  List taken;
  std::thread other([&] { taken = second.claim(List{0, 1, 2}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for it to find them all taken
  first.give_back(List{1, 2});
  other.join();
  CHECK(taken == List{0});
}

TEST_CASE("one that is stopped while it claims holds nobody up for ever") {
  const ScratchFolder folder;
  ProcessorClaims first(folder.path() / "claims"), second(folder.path() / "claims");
  CHECK(first.claim(List{0}).empty());
  CHECK(second.claim(List{0, 1}) == List{0});
}

TEST_CASE("where claims cannot be kept, everything is free") {
  const ScratchFolder folder;
  for (const auto& file : {folder.path() / "none" / "claims", folder.path()}) {
    ProcessorClaims first(file), second(file);
    CHECK(first.claim(List{0}).empty());
    CHECK(second.claim(List{0}).empty());
  }
  std::filesystem::create_symlink(folder.path() / "elsewhere", folder.path() / "link");
  ProcessorClaims led_astray(folder.path() / "link");
  CHECK(led_astray.claim(List{0}).empty());
  CHECK(!std::filesystem::exists(folder.path() / "elsewhere"));
}

}  // namespace
}  // namespace starling::peer

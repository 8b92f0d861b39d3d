#include "model/tokenizers/word_cache.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace starling::model {

namespace {

std::vector<std::int32_t> known(const WordCache& cache, std::string_view word) {
  const auto found = cache.find(word);
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("a word comes back with its tokens") {
  WordCache cache;
  CHECK(cache.find("starling").empty());
  cache.put("starling", std::vector<std::int32_t>{7, 8});
  cache.put(" a", std::vector<std::int32_t>{9});
  CHECK(known(cache, "starling") == std::vector<std::int32_t>{7, 8});
  CHECK(known(cache, " a") == std::vector<std::int32_t>{9});
  CHECK(cache.find("starlin").empty());
  CHECK(cache.find("starling ").empty());
  CHECK(cache.find("").empty());
  cache.put("starling", std::vector<std::int32_t>{1});
  CHECK(known(cache, "starling") == std::vector<std::int32_t>{1});
}

TEST_CASE("what is too long for a place is not kept, and what just fits is") {
  WordCache cache;
  const std::string longest(WordCache::kWordBytesMax, 'x');
  const std::vector<std::int32_t> most(WordCache::kTokensMax, 5);
  cache.put(longest, most);
  CHECK(known(cache, longest) == most);
  cache.put(longest + "x", most);
  CHECK(cache.find(longest + "x").empty());
  std::vector<std::int32_t> more = most;
  more.push_back(5);
  cache.put("word", more);
  CHECK(cache.find("word").empty());
}

TEST_CASE("however many words pass, each known one has its own tokens") {
  WordCache cache;
  std::size_t kept = 0;
  for (std::int32_t round = 0; round < 2; ++round) {
    for (std::int32_t i = 0; i < 200'000; ++i) {
      const std::string word = "w" + std::to_string(i);
      const std::vector<std::int32_t> tokens = known(cache, word);
      if (!tokens.empty()) {
        REQUIRE(tokens == std::vector<std::int32_t>{i, -i});
        ++kept;
      }
      cache.put(word, std::vector<std::int32_t>{i, -i});
    }
  }
  CHECK(kept < 200'000);  // the table has not grown
}

}  // namespace starling::model

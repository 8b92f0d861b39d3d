#include "peer/files/part_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace starling::peer {
namespace {

ReadingPlan plan_of(std::uint16_t parts, std::uint64_t stream = 7) {
  return {.space = 5,
          .tokens = std::uint64_t{parts} * 64 * 16,
          .cell_tokens = 16,
          .parts = parts,
          .window_tokens = 16,
          .seed = 1,
          .stream = stream};
}

std::vector<std::uint64_t> read(PartReader& reader, std::size_t windows) {
  std::vector<std::uint64_t> starts(windows);
  for (std::uint64_t& start : starts) start = reader.next();
  return starts;
}

}  // namespace

TEST_CASE("a permutation takes every number once, and another key another order") {
  for (const std::uint64_t count : {1, 2, 3, 16, 17, 100, 1000}) {
    CAPTURE(count);
    std::set<std::uint64_t> seen;
    std::uint64_t same = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t number = permuted(i, count, 9);
      CHECK(number < count);
      seen.insert(number);
      same += number == permuted(i, count, 10) ? 1 : 0;
    }
    CHECK(seen.size() == count);
    if (count >= 100) CHECK(same < count / 10);
  }
  CHECK(permuted(~std::uint64_t{0} - 1, ~std::uint64_t{0}, 3) < ~std::uint64_t{0});
}

TEST_CASE("a peer alone reads every part once before it reads any twice") {
  for (const std::uint16_t parts : std::vector<std::uint16_t>{1, 3, 40}) {
    CAPTURE(parts);
    PartReader reader(plan_of(parts));
    std::map<std::uint16_t, int> finished;
    for (int i = 0; i < 3 * 64 * parts; ++i) {
      reader.next();
      if (const auto part = reader.take_finished()) ++finished[*part];
      const auto [least, most] =
          std::minmax_element(finished.begin(), finished.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      if (finished.size() < parts) CHECK((finished.empty() || most->second == 1));
      if (finished.size() == parts) CHECK(most->second - least->second <= 1);
    }
    CHECK(reader.finished() >= std::uint64_t{parts} * 2);
    CHECK(finished.size() == parts);
  }
}

TEST_CASE("a pass reads every token once, and the next is cut elsewhere") {
  for (const std::uint64_t window : {16, 8, 64}) {
    CAPTURE(window);
    ReadingPlan plan = plan_of(40);
    plan.window_tokens = window;
    PartReader reader(plan);
    std::set<std::uint64_t> offsets;
    for (int pass = 0; pass < 4; ++pass) {
      std::vector<std::uint64_t> starts = read(reader, plan.tokens / window);
      CHECK(!std::is_sorted(starts.begin(), starts.end()));
      std::sort(starts.begin(), starts.end());
      CHECK(std::adjacent_find(starts.begin(), starts.end()) == starts.end());
      CHECK(starts[0] < plan.cell_tokens + window);
      offsets.insert(starts[0] % 8);
      if (window > plan.cell_tokens) continue;
      for (std::size_t i = 0; i < starts.size(); ++i) CHECK(starts[i] == starts[0] + window * i);
    }
    if (window <= plan.cell_tokens) CHECK(offsets.size() > 1);
  }
}

TEST_CASE("windows that do not divide a cell read about every token once") {
  ReadingPlan plan = plan_of(40);
  plan.window_tokens = 12;
  PartReader reader(plan);
  std::uint64_t windows = 0;
  for (int finished = 0; finished < 40; ++windows) {
    CHECK(reader.next() < plan.tokens + plan.cell_tokens);
    finished += reader.take_finished() ? 1 : 0;
  }
  CHECK(windows * 12 > 0.99 * static_cast<double>(plan.tokens));
  CHECK(windows * 12 < 1.01 * static_cast<double>(plan.tokens));
}

TEST_CASE("a part, and so each of its batches, holds text from all over the data") {
  const ReadingPlan plan = plan_of(64);
  PartReader reader(plan);
  std::map<std::uint64_t, int> windows_by_place;
  for (const std::uint64_t start : read(reader, 64)) ++windows_by_place[start * 8 / plan.tokens];
  REQUIRE(reader.finished() == 1);
  for (std::uint64_t place = 0; place < 8; ++place) CHECK(windows_by_place[place] >= 2);
}

TEST_CASE("all peers have the same cells in a part, whatever the order in which they read them") {
  std::map<std::uint16_t, std::set<std::uint64_t>> cells;
  for (const std::uint64_t stream : {1, 2}) {
    ReadingPlan plan = plan_of(5, stream);
    plan.seed = stream;
    PartReader reader(plan);
    for (int part = 0; part < 5; ++part) {
      const std::uint16_t reading = part == 0 ? std::uint16_t{0} : reader.held()[0];
      std::vector<std::uint64_t> starts = read(reader, 64);
      const std::uint16_t finished = reader.take_finished().value();
      if (part > 0) CHECK(finished == reading);
      cells[finished].insert(starts.begin(), starts.end());
    }
  }
  CHECK(cells.size() == 5);
  for (const auto& [part, starts] : cells) CHECK(starts.size() == 64);
}

TEST_CASE("a reader goes on from its position with the same windows") {
  for (const std::size_t until : {0, 1, 63, 64, 1000, 5000}) {
    CAPTURE(until);
    PartReader whole(plan_of(40));
    PartReader first(plan_of(40));
    read(whole, until);
    read(first, until);
    DataPosition position;
    first.save(position);
    PartReader second(plan_of(40));
    REQUIRE(second.restore(position));
    CHECK(second.finished() == whole.finished());
    CHECK(read(second, 3000) == read(whole, 3000));
  }
}

TEST_CASE("peers of one run read in different orders") {
  PartReader left(plan_of(40, 1));
  PartReader right(plan_of(40, 2));
  CHECK(read(left, 20) != read(right, 20));
}

TEST_CASE("a position in other data is refused, and one in the same with other windows is not") {
  PartReader reader(plan_of(40));
  read(reader, 1000);
  DataPosition position;
  reader.save(position);
  ReadingPlan other = plan_of(40);
  other.space = 6;
  PartReader stranger(other);
  CHECK_FALSE(stranger.restore(position));
  PartReader fresh(other);
  CHECK(read(stranger, 100) == read(fresh, 100));

  ReadingPlan longer = plan_of(40);
  longer.window_tokens = 1024;  // one window a part: those begun have no more
  PartReader changed(longer);
  CHECK(changed.restore(position));
  CHECK(changed.finished() == reader.finished());
  for (const std::uint64_t start : read(changed, 100)) CHECK(start < longer.tokens + 1024);

  position.open[0].part = 40;  // of a damaged or hostile file
  CHECK(changed.restore(position));
  position.passes.pop_back();
  CHECK_FALSE(changed.restore(position));
}

TEST_CASE("what others have read is left to the end") {
  PartReader reader(plan_of(40));
  for (std::uint16_t part = 0; part < 20; ++part) {
    reader.learn({.part = part, .view = {.passes = 1, .claims = 0, .ours = false}});
  }
  for (int i = 0; i < 20 * 64; ++i) {
    reader.next();
    if (const auto part = reader.take_finished()) CHECK(*part >= 20);
  }
  CHECK(reader.finished() == 20);
}

}  // namespace starling::peer

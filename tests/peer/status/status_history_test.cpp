#include "peer/status/status_history.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace starling::peer {

namespace {

using nlohmann::json;

// The values of one column.
std::vector<json> column(const StatusHistory& history, const std::string& name) {
  const json told = json::parse(history.to_json().dump());  // as a reader has it
  std::size_t place = 0;
  while (told.at("columns").at(place) != name) ++place;
  std::vector<json> values;
  for (const json& point : told.at("points")) values.push_back(point.at(place));
  return values;
}

}  // namespace

TEST_CASE("a history covers the whole run, however long it is, in a bounded number of points") {
  StatusHistory history;
  for (int second = 1; second <= 20'000; ++second) {
    history.add({{"seconds", second}, {"bytes_out", 10 * second}, {"loss", second % 2 + 1.0}});
    REQUIRE(history.size() <= StatusHistory::kPointsMax);
  }
  CHECK(history.size() >= StatusHistory::kPointsMax / 2);
  const auto seconds = column(history, "seconds");
  CHECK(seconds.front() == 64);  // 20,000 reports in points of 64
  CHECK(seconds.back() == 20'000);
  for (std::size_t i = 1; i + 1 < seconds.size(); ++i) {
    CHECK(seconds[i].get<int>() - seconds[i - 1].get<int>() == 64);
  }
  CHECK(column(history, "bytes_out").back() == 200'000);
  CHECK(column(history, "loss").front().get<double>() == doctest::Approx(1.5));
}

TEST_CASE("what was not known is null, and is not taken for zero in an average") {
  StatusHistory history;
  history.add({{"seconds", 1.0}, {"loss", nullptr}, {"validation_loss", 0.0}});
  CHECK(column(history, "loss").front().is_null());
  CHECK(column(history, "validation_loss").front().is_null());
  CHECK(column(history, "tokens").front().is_null());
  for (int i = 0; i < 600; ++i) history.add({{"seconds", 2 + i}, {"loss", 3.0}});
  for (const json& loss : column(history, "loss")) CHECK(loss == 3.0);
}

}  // namespace starling::peer

#include "peer/status/prometheus_text.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace starling::peer {

namespace {

using nlohmann::json;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a report becomes samples with their help and type before them") {
  const std::string text =
      prometheus_text({{"tokens", 12345678901234U}, {"loss", 2.5}, {"dialable", true}});
  CHECK(contains(text,
                 "# HELP starling_tokens_total Tokens that this peer has trained on.\n"
                 "# TYPE starling_tokens_total counter\nstarling_tokens_total 12345678901234\n"));
  CHECK(contains(text, "# TYPE starling_loss gauge\nstarling_loss 2.5\n"));
  CHECK(contains(text, "starling_dialable 1\n"));
}

TEST_CASE("what a report lacks, and what is not measured yet, is left out") {
  const std::string text =
      prometheus_text({{"validation_loss", 0.0}, {"last_exchange_seconds_ago", -1.0}});
  CHECK(!contains(text, "starling_tokens_total"));
  CHECK(!contains(text, "validation"));
  CHECK(!contains(text, "exchange_age"));
  CHECK(contains(prometheus_text({{"last_exchange_seconds_ago", 0.5}}),
                 "starling_last_exchange_age_seconds 0.5\n"));
}

TEST_CASE("what the disk did not take is counted, and an alarm while it goes on") {
  json report{{"checkpoints", 4}, {"checkpoints_failed", 2}, {"lines_dropped", 7}};
  report["alarms"].push_back({{"kind", "disk"}, {"text", "Make room."}});
  const std::string text = prometheus_text(report);
  CHECK(contains(text, "starling_checkpoints_total 4\n"));
  CHECK(contains(text,
                 "# TYPE starling_checkpoints_failed_total counter\n"
                 "starling_checkpoints_failed_total 2\n"));
  CHECK(contains(text,
                 "# TYPE starling_lines_dropped_total counter\n"
                 "starling_lines_dropped_total 7\n"));
  CHECK(contains(text, "starling_alarm{kind=\"disk\"} 1\n"));
}

TEST_CASE("a loss that is no number any more is told as such") {
  CHECK(contains(prometheus_text({{"loss", nullptr}}), "starling_loss NaN\n"));
  using Numbers = std::numeric_limits<double>;
  CHECK(contains(prometheus_text({{"loss", Numbers::quiet_NaN()}}), "starling_loss NaN\n"));
  CHECK(contains(prometheus_text({{"loss", Numbers::infinity()}}), "starling_loss +Inf\n"));
  CHECK(contains(prometheus_text({{"loss", -Numbers::infinity()}}), "starling_loss -Inf\n"));
}

TEST_CASE("counts by reason have it as a label, and labels are escaped") {
  const std::string text = prometheus_text({{"peer", "a\"b\\c\nd"},
                                            {"rejected", {{"not finite", 3}}},
                                            {"outcomes", {{"completed", 7}, {"partial", 1}}}});
  CHECK(contains(text, "starling_info{peer=\"a\\\"b\\\\c\\nd\"} 1\n"));
  CHECK(contains(text, "starling_rejected_total{reason=\"not finite\"} 3\n"));
  CHECK(contains(text,
                 "starling_exchanges_total{outcome=\"completed\"} 7\n"
                 "starling_exchanges_total{outcome=\"partial\"} 1\n"));
}

TEST_CASE("each fragment has its own disagreement") {
  const std::string text = prometheus_text(
      {{"fragments",
        {{{"fragment", 0}, {"disagreement", 0.5}}, {{"fragment", 4}, {"disagreement", 2.0}}}}});
  CHECK(contains(text,
                 "starling_fragment_disagreement{fragment=\"0\"} 0.5\n"
                 "starling_fragment_disagreement{fragment=\"4\"} 2.0\n"));
}

TEST_CASE("values of another kind than expected are no samples") {
  const std::string text =
      prometheus_text({{"loss", "<script>"}, {"rejected", {{"x", json::array()}}}});
  CHECK(!contains(text, "script"));
  CHECK(!contains(text, "reason"));
}

TEST_CASE("no metric is told twice, and counters are named as such") {
  json report;
  for (const char* key : {"step", "tokens", "loss", "bytes_in", "bytes_out", "held_seconds"}) {
    report[key] = 1;
  }
  std::istringstream lines(prometheus_text(report));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    CHECK(names.insert(name).second);
    CHECK(line.ends_with(" counter") == name.ends_with("_total"));
  }
  CHECK(names.size() == 7);  // and who this is
}

}  // namespace starling::peer

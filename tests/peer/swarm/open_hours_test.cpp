#include "peer/swarm/open_hours.h"

#include <doctest/doctest.h>

namespace starling::peer {
namespace {

std::optional<QuietHours> hours(std::string_view text) { return parse_quiet_hours(text).value(); }

TEST_CASE("machines that are always open accept as many exchanges as others begin") {
  OpenHours day;
  day.add(3, {});
  day.add(1, {});
  const auto met = day.met(std::vector<double>{1.0, 0.25});
  CHECK(day.share(0) == 1);
  CHECK(met[0].begun == doctest::Approx(1));
  CHECK(met[0].accepted == doctest::Approx(2.25 / 3));
  CHECK(met[1].begun == doctest::Approx(0.25));
  CHECK(met[1].accepted == doctest::Approx(1));
}

TEST_CASE("quiet hours that all share cost no exchange of the rest of the day") {
  OpenHours day;
  day.add(1, hours("22:00-10:00"));
  day.add(1, hours("22:00-10:00"));
  CHECK(day.share(1) == 0.5);
  for (const OpenHours::Met& met : day.met(std::vector<double>{1.0, 1.0})) {
    CHECK(met.begun == doctest::Approx(1));
    CHECK(met.accepted == doctest::Approx(1));
  }
}

TEST_CASE("who is open while nobody else is exchanges nothing then") {
  OpenHours day;
  day.add(1, hours("00:00-12:00"));
  day.add(1, hours("12:00-00:00"));
  for (const OpenHours::Met& met : day.met(std::vector<double>{1.0, 1.0})) {
    CHECK(met.begun == 0);
    CHECK(met.accepted == 0);
  }
  OpenHours half;
  half.add(1, {});
  half.add(1, hours("12:00-00:00"));
  const auto met = half.met(std::vector<double>{1.0, 1.0});
  CHECK(met[0].begun == doctest::Approx(0.5));
  CHECK(met[0].accepted == doctest::Approx(0.5));
  CHECK(met[1].begun == doctest::Approx(1));
  CHECK(met[1].accepted == doctest::Approx(1));
}

TEST_CASE("exchanges that are begun are accepted, whatever the hours") {
  OpenHours day;
  const std::vector<double> begun{1.0, 0.3, 0.02};
  const std::vector<double> count{2, 5, 1};
  day.add(2, hours("08:00-17:30"));
  day.add(5, {});
  day.add(1, hours("23:10-04:00"));
  const auto met = day.met(begun);
  double all_begun = 0, all_accepted = 0;
  for (std::size_t kind = 0; kind < begun.size(); ++kind) {
    all_begun += count[kind] * day.share(kind) * met[kind].begun;
    all_accepted += count[kind] * day.share(kind) * met[kind].accepted;
  }
  CHECK(all_accepted == doctest::Approx(all_begun));
}

}  // namespace
}  // namespace starling::peer

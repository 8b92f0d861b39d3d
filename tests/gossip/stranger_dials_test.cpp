#include "gossip/stranger_dials.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::gossip {
namespace {

std::size_t taken(StrangerDials& dials, Instant now, std::string_view host) {
  std::size_t count = 0;
  while (count <= StrangerDials::kOpenMax && dials.take(now, host)) ++count;
  return count;
}

TEST_CASE("of one host so many are dialled at a time, and of another as many") {
  StrangerDials dials;
  const Instant start{};
  CHECK(taken(dials, start, "one") == StrangerDials::kOpenMax);
  CHECK(taken(dials, start, "other") == StrangerDials::kOpenMax);
  CHECK(taken(dials, start + StrangerDials::kKept / 2, "one") == 0);
  CHECK(taken(dials, start + StrangerDials::kKept, "one") == StrangerDials::kOpenMax);
}

TEST_CASE("who answers makes room for another of its host") {
  StrangerDials dials;
  const Instant start{};
  CHECK(taken(dials, start, "one") == StrangerDials::kOpenMax);
  dials.answered("one");
  dials.answered("unheard of");
  CHECK(taken(dials, start, "one") == 1);
  for (std::size_t i = 0; i < 2 * StrangerDials::kOpenMax; ++i) dials.answered("one");
  CHECK(taken(dials, start, "one") == StrangerDials::kOpenMax);
}

TEST_CASE("of more hosts than are remembered the one longest not dialled is forgotten") {
  StrangerDials dials;
  Instant now{};
  CHECK(taken(dials, now, "first") == StrangerDials::kOpenMax);
  now += std::chrono::milliseconds(1);
  CHECK(taken(dials, now, "second") == StrangerDials::kOpenMax);
  for (std::size_t i = 2; i <= StrangerDials::kHostsMax; ++i) {
    now += std::chrono::milliseconds(1);
    CHECK(dials.take(now, "host" + std::to_string(i)));
  }
  CHECK(taken(dials, now, "second") == 0);
  CHECK(taken(dials, now, "first") == StrangerDials::kOpenMax);
}

}  // namespace
}  // namespace starling::gossip

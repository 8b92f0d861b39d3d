#include "peer/status/exchange_log.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace starling::peer {

namespace {

constexpr Instant kStart{};
constexpr PeerId kSelf{99};

gossip::ExchangeEnded ended(std::uint64_t partner, gossip::Outcome outcome,
                            gossip::Role role = gossip::Role::kInitiator) {
  gossip::ExchangeEnded event;
  const bool initiated = role == gossip::Role::kInitiator;
  event.exchange.initiator.id = initiated ? kSelf : PeerId{partner};
  event.exchange.responder.id = initiated ? PeerId{partner} : kSelf;
  event.role = role;
  event.outcome = outcome;
  event.fragment = FragmentId{3};
  return event;
}

}  // namespace

TEST_CASE("what came of exchanges is told by partner, in either role, and by outcome") {
  ExchangeLog log;
  log.note(kStart, ended(1, gossip::Outcome::kCompleted));
  log.note(kStart + std::chrono::seconds(2),
           ended(1, gossip::Outcome::kCompleted, gossip::Role::kResponder));
  log.note(kStart + std::chrono::seconds(3), ended(2, gossip::Outcome::kTimedOut));
  REQUIRE(log.with(PeerId{1}) != nullptr);
  CHECK(log.with(PeerId{1})->completed == 2);
  CHECK(log.with(PeerId{1})->last_completed == kStart + std::chrono::seconds(2));
  CHECK(!log.with(PeerId{2})->last_completed);
  CHECK(log.with(PeerId{2})->failed == 1);
  CHECK(log.with(PeerId{2})->declined == 0);
  CHECK(log.with(PeerId{3}) == nullptr);
  const nlohmann::json outcomes = log.by_outcome();
  CHECK(outcomes.size() == 2);
  CHECK(outcomes.at("completed") == 2);
  const nlohmann::json recent = log.recent(kStart + std::chrono::seconds(4));
  REQUIRE(recent.size() == 3);
  CHECK(recent[0].at("partner") == "0000000000000002");
  CHECK(recent[0].at("seconds_ago") == 1.0);
  CHECK(recent[1].at("initiated") == false);
  CHECK(recent[2].at("fragment") == 3);
}

TEST_CASE("how far differences with a partner were clipped lately is told") {
  ExchangeLog log;
  gossip::ExchangeEnded event = ended(1, gossip::Outcome::kCompleted);
  event.stripes_applied = 4;
  log.note(kStart, event);
  CHECK(log.with(PeerId{1})->clip_factor == 1.0);
  CHECK(!log.recent(kStart)[0].contains("clip_factor"));
  event.clip_factor = 0.125F;
  for (int i = 0; i < 12; ++i) log.note(kStart, event);
  CHECK(log.with(PeerId{1})->clip_factor == doctest::Approx(0.125).epsilon(0.15));
  CHECK(log.recent(kStart)[0].at("clip_factor") == 0.125F);
  event.stripes_applied = 0;  // nothing came together, so there was nothing to clip
  event.clip_factor = 1;
  log.note(kStart, event);
  CHECK(log.with(PeerId{1})->clip_factor < 0.15);
  event.stripes_applied = 4;
  for (int i = 0; i < 12; ++i) log.note(kStart, event);
  CHECK(log.with(PeerId{1})->clip_factor > 0.95);
}

TEST_CASE("ever other partners fill nothing, and those met lately are remembered") {
  ExchangeLog log;
  for (std::uint64_t id = 1; id <= 3 * ExchangeLog::kPartnersMax; ++id) {
    log.note(kStart + std::chrono::seconds(id), ended(id, gossip::Outcome::kDeclined));
  }
  CHECK(log.recent(kStart).size() == ExchangeLog::kRecentMax);
  CHECK(log.with(PeerId{2 * ExchangeLog::kPartnersMax}) == nullptr);
  const ExchangeLog::WithPartner* kept = log.with(PeerId{2 * ExchangeLog::kPartnersMax + 1});
  REQUIRE(kept != nullptr);
  CHECK((kept->declined == 1 && kept->failed == 0));  // a partner that is busy has not failed
}

}  // namespace starling::peer

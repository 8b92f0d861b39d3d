// What a peer with valid papers can do to another by messages alone: one row per kind of bad
// input. Of each is shown that no weight changed, no lease or memory is kept, it is counted under
// its name, the operator is told, and the sender is muted where there is proof. Bad payloads:
// tests/peer/roles/hostile_payload_test.cpp; bad frames: wire_test and link_test.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/reject_reason.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

constexpr PeerId kVictim{1};
constexpr PeerId kEvil{2};
constexpr FragmentId kFragment{0};

ExchangeKey begun_by_evil(std::uint64_t counter = 900) {
  return {{kEvil, 1}, {kVictim, 1}, counter};
}
Offer good_offer(std::uint64_t counter = 900) {
  return {begun_by_evil(counter), kFragment, 3, 2, false, 1.0F, 0.5F, 0.0F, 1000};
}

std::uint64_t rejected(CoreBench& bench, RejectReason reason) {
  return bench.core(1).stats().rejected[static_cast<std::size_t>(reason)];
}

// Keeps what `kEvil` is told, and sends nothing of its own.
void listen(CoreBench& bench) {
  bench.passes = [](const Letter& letter) {
    return letter.from != kEvil || is<Pong>(letter.message);
  };
}

void check_harmless(CoreBench& bench, RejectReason reason, bool proof) {
  CHECK(bench.node(1).net_applied.empty());
  CHECK(bench.core(1).exchanges_open() == 0);
  CHECK(bench.core(1).stripes_unsettled() == 0);
  CHECK(rejected(bench, reason) > 0);
  const auto& told = bench.node(1).rejected;
  CHECK(std::any_of(told.begin(), told.end(), [reason](const Rejected& event) {
    return event.by_us && event.peer == kEvil && event.reason == reason;
  }));
  CHECK(bench.core(1).muted(bench.now, kEvil) == proof);
  CHECK(bench.core(1).stats().mutes == (proof ? 1U : 0U));
  CHECK(bench.node(1).muted.empty() == !proof);  // again of whoever floods on
}

struct Row {
  std::string name;
  RejectReason reason;
  std::vector<Message> sent;
};

std::vector<Row> rows() {
  const ExchangeKey foreign{{PeerId{3}, 1}, {kVictim, 1}, 1};
  const ExchangeKey not_for_us{{kEvil, 1}, {PeerId{3}, 1}, 1};
  const auto stripe = [](const ExchangeKey& key, std::uint16_t fragment, std::uint32_t index,
                         std::uint8_t attempt) {
    return StripeRef{key, FragmentId{fragment}, index, attempt};
  };
  std::vector<Row> rows;
  Offer offer = good_offer();
  offer.mixing = 2;
  rows.push_back({"an offer to move further than is possible", RejectReason::kBadTerms, {offer}});
  offer = good_offer();
  offer.weight = -1;
  rows.push_back({"an offer of negative mass", RejectReason::kBadTerms, {offer}});
  offer = good_offer();
  offer.fragment = FragmentId{77};
  rows.push_back({"an offer of a fragment that is not there", RejectReason::kBadTerms, {offer}});
  offer = good_offer();
  offer.stripes = 4000000000U;
  rows.push_back({"an offer of more stripes than there are", RejectReason::kBadTerms, {offer}});
  offer = good_offer();
  offer.exchange = foreign;
  rows.push_back({"an offer in another's name", RejectReason::kWrongName, {offer}});
  const ExchangeKey ours = begun_by_evil();
  rows.push_back({"a push of a stripe that is not there",
                  RejectReason::kWrongName,
                  {good_offer(), Push{stripe(ours, 0, 3, 0)}}});
  rows.push_back({"a push of another fragment",
                  RejectReason::kWrongName,
                  {good_offer(), Push{stripe(ours, 1, 0, 0)}}});
  rows.push_back({"a push of an attempt beyond all counting",
                  RejectReason::kWrongName,
                  {good_offer(), Push{stripe(ours, 0, 0, 255)}}});
  for (const ExchangeKey& key : {foreign, not_for_us}) {
    const StripeRef ref = stripe(key, 0, 0, 0);
    for (const Message& message :
         {Message(Push{ref}), Message(Delta{ref}), Message(Commit{ref}), Message(Committed{ref}),
          Message(Abandoned{ref}), Message(Abort{ref}), Message(Query{ref}), Message(Resend{ref}),
          Message(Finish{key}), Message(Accept{key}), Message(Decline{key})}) {
      rows.push_back({"message " + std::to_string(message.index()) + " about others' exchange",
                      RejectReason::kWrongName,
                      {message}});
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("a message that no sound peer sends mutes its sender and changes nothing") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    CoreBench bench;
    bench.start_swarm(3);
    listen(bench);
    for (const Message& message : row.sent) bench.deliver({kEvil, kVictim, message});
    check_harmless(bench, row.reason, true);
    bench.run(minutes(5));  // its pings still count: muted is not dead
    CHECK(bench.core(1).stats().peers_alive == 2);
  }
}

TEST_CASE("an acceptance with terms that were not offered ends the exchange and mutes") {
  for (int kind = 0; kind < 6; ++kind) {
    CAPTURE(kind);
    CoreBench bench;
    bench.start_swarm(2);
    lose<Accept>(bench, 1);
    bench.publish(1, 0, {.cold = true, .clip_radius = 0.5F});
    REQUIRE(bench.held.size() == 1);
    Letter letter = bench.held[0];
    Accept& accept = std::get<Accept>(letter.message);
    if (kind == 0) accept.mixing = 1;
    if (kind == 1) accept.format = 9;
    if (kind == 2) accept.window = 0;
    if (kind == 3) accept.clip_radius = -1;
    if (kind == 4) accept.clip_radius = 0;  // none, and any difference would pass
    if (kind == 5) accept.clip_radius = 0.75F;
    bench.deliver(letter);
    check_harmless(bench, RejectReason::kBadTerms, true);
    CHECK(bench.core(2).exchanges_open() == 0);
  }
}

TEST_CASE("a malformed frame of a proven sender mutes it") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_bad_frame(bench.now, kEvil, RejectReason::kMalformed);
  bench.settle();
  check_harmless(bench, RejectReason::kMalformed, true);
}

TEST_CASE("frames that are damaged, or of a version not spoken here, mute nobody") {
  for (const RejectReason reason : {RejectReason::kDamaged, RejectReason::kOtherVersion}) {
    CAPTURE(to_string(reason));
    CoreBench bench;
    bench.start_swarm(2);
    for (int i = 0; i < 100; ++i) bench.core(1).on_bad_frame(bench.now, kEvil, reason);
    bench.settle();
    check_harmless(bench, reason, false);
  }
}

TEST_CASE("a payload that the gate turns down is named on both sides and mutes its sender") {
  for (const RejectReason reason :
       {RejectReason::kMalformed, RejectReason::kWrongFormat, RejectReason::kNotFinite,
        RejectReason::kTooFar, RejectReason::kBeyondClip}) {
    for (const bool pushed : {true, false}) {
      CAPTURE(to_string(reason));
      CAPTURE(pushed);
      CoreBench bench;
      bench.start_swarm(2);
      bench.no = {reason};
      bench.obeys = [pushed](PeerId id, const Action& action) {
        const bool stages = std::holds_alternative<StageDelta>(action);
        const bool applies = std::holds_alternative<ApplyDelta>(action);
        return id != kVictim || (pushed ? !stages : !applies);
      };
      bench.publish(pushed ? 2 : 1, 0);
      check_harmless(bench, reason, true);
      CHECK(bench.node(2).net_applied.empty());
      CHECK(bench.core(2).exchanges_open() == 0);
      CHECK(bench.core(2).stats().rejections_heard[static_cast<std::size_t>(reason)] == 1);
      const auto& heard = bench.node(2).rejected;
      CHECK(std::count_if(heard.begin(), heard.end(), [reason](const Rejected& event) {
              return !event.by_us && event.reason == reason;
            }) == 1);
    }
  }
}

TEST_CASE("a finished exchange that is replayed, or one committed unstaged, finds nothing") {
  CoreBench bench;
  bench.start_swarm(2);
  listen(bench);
  bench.deliver({kEvil, kVictim, good_offer(5)});
  bench.deliver({kEvil, kVictim, Finish{begun_by_evil(5)}});
  const std::uint64_t before = bench.core(1).stats().messages_refused;
  bench.deliver({kEvil, kVictim, good_offer(5)});
  bench.deliver({kEvil, kVictim, good_offer(4)});
  CHECK(bench.core(1).stats().messages_refused == before + 2);
  std::vector<Message> answers;
  bench.passes = [&answers](const Letter& letter) {
    if (letter.from == kVictim) answers.push_back(letter.message);
    return letter.from != kEvil;
  };
  bench.deliver({kEvil, kVictim, Commit{{begun_by_evil(5), kFragment, 0, 0}}});
  REQUIRE(answers.size() == 1);
  CHECK(is<Abandoned>(answers[0]));
  CHECK(bench.node(1).net_applied.empty());
  CHECK(bench.core(1).exchanges_open() == 0);
  CHECK_FALSE(bench.core(1).muted(bench.now, kEvil));  // an old message may look like that
}

TEST_CASE("a flood of offers is answered up to a measure and then ignored") {
  CoreBench bench;
  bench.start_swarm(2);
  std::uint64_t answers = 0;
  bench.passes = [&answers](const Letter& letter) {
    answers += letter.from == kVictim && !is<Pong>(letter.message) ? 1 : 0;
    return letter.from != kEvil;
  };
  for (std::uint64_t counter = 900; counter < 1900; ++counter) {
    bench.deliver({kEvil, kVictim, good_offer(counter)});
  }
  CHECK(answers == static_cast<std::uint64_t>(Conduct::kOffersAtOnce));
  CHECK(rejected(bench, RejectReason::kFlood) == 1000 - answers);
  bench.run(3 * bench.config.stripe_timeout);
  check_harmless(bench, RejectReason::kFlood, false);
}

TEST_CASE("pushes beyond what was agreed are not staged and cost no memory") {
  CoreBench bench;
  bench.stripes = {400};
  bench.config.window = 2;
  bench.start_swarm(2);
  int staged = 0;
  bench.obeys = [&staged](PeerId, const Action& action) {
    staged += std::holds_alternative<StageDelta>(action) ? 1 : 0;
    return true;
  };
  listen(bench);
  Offer offer = good_offer();
  offer.stripes = 400;
  bench.deliver({kEvil, kVictim, offer});
  for (std::uint32_t stripe = 0; stripe < 400; ++stripe) {
    bench.deliver({kEvil, kVictim, Push{{begun_by_evil(), kFragment, stripe, 0}}});
  }
  CHECK(staged == 4);
  CHECK(rejected(bench, RejectReason::kOverrun) == 396);
  bench.run(bench.config.responder_gives_up + minutes(5));
  check_harmless(bench, RejectReason::kOverrun, false);
}

TEST_CASE("a muted peer is told once, is not heard, and a restart does not help it") {
  CoreBench bench;
  bench.start_swarm(3);
  bench.core(1).on_bad_frame(bench.now, kEvil, RejectReason::kMalformed);
  bench.publish(2, 0);
  bench.publish(2, 1);
  bench.run(seconds(30));
  CHECK(bench.core(2).stats().mutes_heard <= 1);
  bench.deliver({kEvil, kVictim, good_offer(901)});
  bench.deliver({kEvil, kVictim, good_offer(902)});
  CHECK(bench.core(2).stats().mutes_heard == 1);
  REQUIRE(bench.node(2).muted.size() == 1);
  CHECK_FALSE(bench.node(2).muted[0].by_us);
  CHECK(bench.node(2).muted[0].length > minutes(9));
  CHECK(bench.core(1).stats().messages_muted >= 2);
  CHECK(bench.core(1).exchanges_open() == 0);

  bench.crash(2);
  bench.run(seconds(30));
  bench.start(2, 2);
  bench.join(2, 1);
  bench.run(seconds(5));
  CHECK(bench.core(1).muted(bench.now, kEvil));
  CHECK(bench.core(1).stats().peers_alive == 2);
  for (int i = 0; i < 10; ++i) bench.publish(1, 0);  // nor is it asked
  CHECK(bench.core(1).stats().exchanges_completed > 0);
  CHECK(bench.core(2).stats().offers_received == 0);
  bench.run(Conduct::kFirstMute);
  CHECK_FALSE(bench.core(1).muted(bench.now, kEvil));
}

TEST_CASE("a muted peer that holds a fragment for an exchange that is over is told so") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_bad_frame(bench.now, kEvil, RejectReason::kMalformed);
  std::vector<ExchangeKey> finished;
  bench.passes = [&finished](const Letter& letter) {
    if (is<Finish>(letter.message)) finished.push_back(std::get<Finish>(letter.message).exchange);
    return true;
  };
  Accept accept;
  accept.exchange = {{kVictim, 1}, {kEvil, 1}, 900};
  bench.deliver({kEvil, kVictim, accept});
  REQUIRE(finished.size() == 1);
  CHECK(finished[0] == accept.exchange);
  accept.exchange.initiator.id = PeerId{3};  // somebody else's is none of our business
  bench.deliver({kEvil, kVictim, accept});
  CHECK(finished.size() == 1);
}

TEST_CASE("a peer whose weights are not finite offers nothing and says why it declines") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_sick(bench.now);
  bench.publish(1, 0);
  CHECK(bench.core(1).stats().offers_sent == 0);
  std::vector<DeclineReason> reasons;
  bench.passes = [&reasons](const Letter& letter) {
    if (is<Decline>(letter.message)) reasons.push_back(std::get<Decline>(letter.message).reason);
    return true;
  };
  bench.publish(2, 0);
  REQUIRE(reasons.size() == 1);
  CHECK(reasons[0] == DeclineReason::kSick);
  check_no_lease(bench, 2);
}

TEST_CASE("of keys that never introduced themselves nothing is kept, whatever they send") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_bad_frame(bench.now, kEvil, RejectReason::kMalformed);
  for (std::uint64_t key = 1000; key < 1000 + 2 * Conduct::kRowsMax; ++key) {
    bench.core(1).on_bad_frame(bench.now, PeerId{key}, RejectReason::kMalformed);
  }
  bench.run(seconds(1));
  CHECK(rejected(bench, RejectReason::kMalformed) == 1 + 2 * Conduct::kRowsMax);
  CHECK(bench.node(1).muted.size() == 1);
  CHECK(bench.core(1).peers_muted(bench.now) == 1);
  CHECK(bench.core(1).muted(bench.now, kEvil));  // no stranger has taken its place
}

TEST_CASE("small messages without measure are not answered, and in the end nothing is heard") {
  CoreBench bench;
  bench.start_swarm(3);
  std::uint64_t pongs = 0;
  bench.passes = [&pongs](const Letter& letter) {
    pongs += letter.from == kVictim && letter.to == kEvil && is<Pong>(letter.message) ? 1 : 0;
    return true;
  };
  constexpr int kPerSecond = 500;
  constexpr int kSeconds = 20;
  for (int second = 0; second < kSeconds; ++second) {
    for (int i = 0; i < kPerSecond; ++i) bench.deliver({kEvil, kVictim, Ping{7, {}, {}, {}}});
    bench.run(seconds(1));
  }
  constexpr MessageMeter::Measure kMost = MessageMeter::kTalk;
  CHECK(static_cast<double>(pongs) <= kMost.at_once + kMost.per_second * kSeconds);
  CHECK(rejected(bench, RejectReason::kTooMany) > 0);
  check_harmless(bench, RejectReason::kDeluge, true);
  CHECK(bench.core(1).stats().peers_alive == 2);  // it is heard all the same
}

TEST_CASE(
    "payloads that nobody waits for are an accident, then a doubt, and in the end an offence") {
  CoreBench bench;
  bench.start_swarm(2);
  listen(bench);
  const auto push_strays = [&](std::uint32_t count) {
    for (std::uint32_t stripe = 0; stripe < count; ++stripe) {
      bench.deliver({kEvil, kVictim, Push{{begun_by_evil(), kFragment, stripe, 0}}});
    }
  };
  constexpr MessageMeter::Measure kMost = MessageMeter::kUnasked;
  push_strays(static_cast<std::uint32_t>(kMost.at_once));
  CHECK(rejected(bench, RejectReason::kTooMany) == 0);
  push_strays(kMost.deluge_drops - 1);
  CHECK(rejected(bench, RejectReason::kTooMany) == kMost.deluge_drops - 1);
  CHECK_FALSE(bench.core(1).muted(bench.now, kEvil));
  push_strays(1);
  check_harmless(bench, RejectReason::kDeluge, true);
  // Pieces and deltas, too, and also of one who is muted.
  for (std::uint32_t piece = 0; piece < 2 * kMost.deluge_drops; ++piece) {
    bench.deliver({kEvil, kVictim, Piece{1, piece}});
  }
  CHECK(rejected(bench, RejectReason::kDeluge) >= 2);
}

TEST_CASE("messages of exchanges, too, have a measure, and it is a wide one") {
  CoreBench bench;
  bench.start_swarm(2);
  listen(bench);
  const auto flood = [&](std::uint32_t left) {
    while (left-- > 0) bench.deliver({kEvil, kVictim, Finish{begun_by_evil()}});
  };
  flood(static_cast<std::uint32_t>(MessageMeter::kAll.at_once) - 1000);
  CHECK(rejected(bench, RejectReason::kTooMany) == 0);
  flood(MessageMeter::kAll.deluge_drops + 2000);
  check_harmless(bench, RejectReason::kDeluge, true);
}

}  // namespace starling::gossip

// What members may say to a peer, in any order: a script of messages, of time going by, of answers
// by the mixer and wishes of the owner is read from the input and played to a core. Whatever it is,
// the core's invariants hold after every step, nothing is applied twice or undone unapplied, it
// says a bounded number of things, and once nobody says more of exchanges no lease is left.
//
// The three members have introduced themselves; most messages are put together from a few bytes,
// so that they fit into what is under way, and some are frames as they come.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "gossip/core.h"
#include "gossip/wire/wire.h"
#include "tests/fuzz/core_script.h"

namespace {

using namespace starling;
using namespace starling::gossip;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint16_t kFragments = 3;
constexpr std::uint32_t kStripes = 3;
constexpr std::uint16_t kParts = 40;

GossipConfig config() {
  GossipConfig config;
  config.stripe_timeout = seconds(5);  // leases end in less than a minute
  config.relay.volunteer = true;
  return config;
}

CoreIdentity identity() {
  CoreIdentity identity;
  identity.stripes.assign(kFragments, kStripes);
  identity.data = {5, kParts};
  return identity;
}

// What the mixer holds, as far as the protocol promises it.
class Books {
 public:
  void apply(const StripeRef& ref, Role role) {
    STARLING_ASSERT(applied_.insert({ref, role}).second);
    STARLING_ASSERT(stripes_.insert({stripe_key(ref), role}).second);  // nor by two attempts
  }
  void undo(const StripeRef& ref) {
    STARLING_ASSERT(applied_.erase({ref, Role::kInitiator}) == 1);
    stripes_.erase({stripe_key(ref), Role::kInitiator});
  }

 private:
  std::set<std::pair<StripeRef, Role>> applied_, stripes_;
};

class Scene final : public CoreScene {
 public:
  Scene() : CoreScene(config(), identity()) {
    core_.on_join(now_, {});
    for (std::uint64_t i = 0; i < kMembers; ++i) {
      const PeerId member{kSelf.value + 1 + i};
      core_.on_message(now_, member, Hello{record_of(member), kRun});
      settle();
    }
    pass(seconds(3));
  }

  void step(Script& script) {
    switch (script.below(12)) {
      case 0:
      case 1: pass(milliseconds(1 << script.below(16))); break;
      case 2: wake_late(seconds(1 << script.below(12))); break;
      case 3: publish(script); break;
      case 4: answer_order(script); break;
      case 5: offer(script); break;
      case 6: answer_offer(script); break;
      case 7: say_of_stripe(script); break;
      case 8: gossip(script); break;
      case 9: bring_frame(script); break;
      case 10: befall(script); break;
      default: wish(script);
    }
    settle();
  }

  // The members answer pings and say no more, so that nothing but its own limit ends a lease; the
  // mixer does what it was told.
  void end() {
    answering_ = true;
    Script nothing({});
    const Instant over = now_ + minutes(3);
    while (now_ < over) {
      while (!orders_.empty()) {
        answer_order(nothing);
        settle();
      }
      pass(seconds(1));
    }
    STARLING_ASSERT(core_.exchanges_open() == 0);
  }

 private:
  static PeerId member(Script& script) { return PeerId{kSelf.value + 1U + script.below(kMembers)}; }

  void wake_late(Duration length) {
    now_ += length;
    core_.on_deadline(now_);
  }

  void publish(Script& script) {
    const FragmentId fragment{static_cast<std::uint16_t>(script.below(kFragments))};
    core_.on_published(now_, fragment,
                       {.cold = script.flip(),
                        .clip_radius = script.flip() ? 1.0F : 0.0F,
                        .step = script.number()});
  }

  void offer(Script& script) {
    const PeerId from = member(script);
    Offer offer;
    offer.exchange = {{from, 1U + script.next() / 250U}, {kSelf, 1}, script.next()};
    offer.fragment = FragmentId{static_cast<std::uint16_t>(script.below(kFragments + 1))};
    offer.stripes = script.below(8) == 0 ? script.next() : kStripes;
    offer.format = script.below(8);
    offer.weight = script.number();
    offer.mixing = script.number();
    offer.clip_radius = script.number();
    offer.patience_ms = 1U << script.below(32);
    theirs_ = offer.exchange;
    core_.on_message(now_, from, offer);
  }
  void answer_offer(Script& script) {
    if (ours_.responder.id == PeerId{}) return;
    if (script.below(4) == 0) {
      const auto reason = static_cast<DeclineReason>(script.below(8));
      core_.on_message(now_, ours_.responder.id, Decline{ours_, reason, 1U << script.below(32)});
      return;
    }
    Accept accept{ours_};
    accept.format = script.below(8);
    accept.weight = script.number();
    accept.mixing = script.number();
    accept.clip_radius = script.number();
    accept.window = script.next();
    core_.on_message(now_, ours_.responder.id, accept);
  }
  void say_of_stripe(Script& script) {
    const ExchangeKey exchange = script.flip() ? theirs_ : ours_;
    const bool begun_here = exchange.initiator.id == kSelf;
    const PeerId from = begun_here ? exchange.responder.id : exchange.initiator.id;
    if (from == PeerId{}) return;
    const StripeRef ref{exchange, FragmentId{static_cast<std::uint16_t>(script.below(kFragments))},
                        script.below(kStripes + 1), script.below(4)};
    const auto reason = static_cast<RejectReason>(script.below(kRejectReasons));
    switch (script.below(9)) {
      case 0: core_.on_message(now_, from, Push{ref}); break;
      case 1: core_.on_message(now_, from, Delta{ref}); break;
      case 2: core_.on_message(now_, from, Commit{ref}); break;
      case 3: core_.on_message(now_, from, Committed{ref}); break;
      case 4: core_.on_message(now_, from, Abandoned{ref, reason}); break;
      case 5: core_.on_message(now_, from, Abort{ref, reason}); break;
      case 6: core_.on_message(now_, from, Query{ref}); break;
      case 7: core_.on_message(now_, from, Resend{ref}); break;
      default: core_.on_message(now_, from, Finish{exchange});
    }
  }

  void gossip(Script& script) {
    const PeerId from = member(script);
    const PeerId about{kSelf.value + script.below(kMembers + 3)};
    const std::uint64_t process = 1U + script.below(2);
    PeerRecord record = record_of(about, process, script.below(3));
    record.health = static_cast<Health>(script.below(4));
    record.accuser = PeerId{script.below(6)};
    record.age_s = script.next();
    if (script.below(16) == 0) record.signature[0] ^= 1;
    switch (script.below(6)) {
      case 0: {
        Pong pong;
        pong.nonce = ping_;
        STARLING_ASSERT(pong.records.try_push(record));
        core_.on_message(now_, from, pong);
        break;
      }
      case 1: core_.on_message(now_, from, PingRequest{script.next(), record}); break;
      case 2: core_.on_message(now_, from, Leave{record}); break;
      case 3: core_.on_message(now_, from, Hello{record, kRun}); break;
      case 4: core_.on_message(now_, from, Welcome{record, kRun}); break;
      default: {
        Ping ping;
        ping.nonce = script.next();
        STARLING_ASSERT(ping.records.try_push(record));
        core_.on_message(now_, from, ping);
      }
    }
  }
  void bring_frame(Script& script) {
    const PeerId from = member(script);
    const std::size_t bytes = kHeaderBytes + 4 * script.next();
    std::vector<std::byte> frame;
    for (const std::uint8_t byte : script.take(bytes)) frame.push_back(std::byte{byte});
    if (frame.size() < kHeaderBytes) return;
    seal(frame);
    auto decoded = decode(frame);
    if (decoded.ok()) core_.on_message(now_, from, decoded.value().message);
  }
  void befall(Script& script) {
    const PeerId peer = member(script);
    switch (script.below(6)) {
      case 0: core_.on_send_failed(now_, peer); break;
      case 1: core_.on_reached(now_, static_cast<Reach>(script.below(4))); break;
      case 2: core_.on_forwarded(now_, peer, member(script)); break;
      case 3: core_.on_message(now_, peer, RelayAsk{script.flip()}); break;
      case 4: answering_ = script.flip(); break;
      default:
        core_.on_bad_frame(now_, peer,
                           static_cast<RejectReason>(1 + script.below(kRejectReasons - 1)));
    }
  }
  void wish(Script& script) {
    const std::array members{member(script), kSelf};
    const auto part = script.below(kParts);
    switch (script.below(8)) {
      case 0: core_.on_exchanges_allowed(now_, script.flip()); break;
      case 1: core_.on_paced(now_, script.flip()); break;
      case 2: core_.on_format(now_, script.below(8)); break;
      case 3: core_.on_members(now_, members); break;
      case 4:
        trained_ += script.next() * 1000U;
        core_.on_progress(now_, trained_, script.next());
        break;
      case 5: core_.on_part_finished(now_, part, 1); break;
      case 6: core_.on_sick(now_); break;
      default: core_.on_close(now_);
    }
  }

  void note(const Action& action) override {
    if (const auto* send = std::get_if<Send>(&action)) {
      if (const auto* offer = std::get_if<Offer>(&send->message)) ours_ = offer->exchange;
    }
    const bool order = std::holds_alternative<EncodeStripe>(action) ||
                       std::holds_alternative<StageDelta>(action) ||
                       std::holds_alternative<ReissueDelta>(action) ||
                       std::holds_alternative<ApplyDelta>(action) ||
                       std::holds_alternative<ApplyStaged>(action) ||
                       std::holds_alternative<Compensate>(action);
    if (order) orders_.push_back(action);
  }
  // The oldest, as a mixer does; it may refuse.
  void answer_order(Script& script) {
    if (orders_.empty()) return;
    const Action order = orders_.front();
    orders_.pop_front();
    Verdict verdict;
    if (script.below(4) == 0) {
      verdict.reason = static_cast<RejectReason>(script.below(kRejectReasons));
    }
    const std::size_t bytes = 1000;
    if (const auto* encode = std::get_if<EncodeStripe>(&order)) {
      core_.on_encoded(now_, encode->ref, verdict, bytes);
    } else if (const auto* stage = std::get_if<StageDelta>(&order)) {
      core_.on_staged(now_, stage->ref, verdict, bytes);
    } else if (const auto* again = std::get_if<ReissueDelta>(&order)) {
      core_.on_staged(now_, again->ref, verdict, bytes);
    } else if (const auto* delta = std::get_if<ApplyDelta>(&order)) {
      if (verdict.done()) books_.apply(delta->ref, Role::kInitiator);
      core_.on_applied(now_, delta->ref, verdict);
    } else if (const auto* staged = std::get_if<ApplyStaged>(&order)) {
      if (verdict.done()) books_.apply(staged->ref, Role::kResponder);
      core_.on_applied(now_, staged->ref, verdict);
    } else if (const auto* undo = std::get_if<Compensate>(&order)) {
      books_.undo(undo->ref);
      core_.on_compensated(now_, undo->ref);
    }
  }

  Books books_;
  std::deque<Action> orders_;
  ExchangeKey theirs_, ours_;
  std::uint64_t trained_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script({data, std::min<std::size_t>(size, 4096)});
  Scene scene;
  while (!script.over()) scene.step(script);
  scene.end();
  return 0;
}

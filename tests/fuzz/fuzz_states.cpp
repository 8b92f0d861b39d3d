// What members may say of states to a newcomer that fetches one and to a peer that serves its own,
// in any order: a script of messages, of time going by and of answers by the keeper of states is
// read from the input and played to a core. Whatever it is, the core's invariants hold after every
// step, the keeper has a bounded number of things to do, the fetching ends once, and when nobody
// says anything more nobody is served.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "gossip/core.h"
#include "gossip/token_seal.h"
#include "tests/fuzz/core_script.h"

namespace {

using namespace starling;
using namespace starling::gossip;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint32_t kStripes = 4;  // in two fragments
constexpr std::uint64_t kSnapshots = 3;
constexpr std::size_t kOrdersMax = 64;

GossipConfig config(Script& script) {
  GossipConfig config;
  config.newcomer_tokens = 1000;
  config.state.moments = script.flip();
  config.state.donors_max = 1U + script.below(kMembers);
  config.state.serve_max = 1U + script.below(2);
  config.state.patience = seconds(20);
  return config;
}

CoreIdentity identity() {
  CoreIdentity identity;
  identity.stripes = {1, kStripes - 1};
  return identity;
}

// That it has trained far more than a newcomer.
TokenEntry tokens_of(PeerId member) {
  TokenEntry entry{{member, 1}, 1'000'000, 1, stand_in_key(member), {}};
  const StandInSeal seal(member);
  TokenSeal(&seal, kRun.run).sign(entry);
  return entry;
}

class Scene final : public CoreScene {
 public:
  explicit Scene(Script& script) : CoreScene(config(script), identity()), fetches_(script.flip()) {
    if (fetches_) {
      FetchState fetch;
      for (std::uint32_t stripe = 0; stripe < kStripes; ++stripe) {
        fetch.held.push_back(script.below(8) == 0 ? 1 + script.below(kSnapshots) : 0);
      }
      core_.on_state(now_, fetch);
    }
    core_.on_join(now_, {});
    for (std::uint64_t i = 0; i < kMembers; ++i) {
      const PeerId member{kSelf.value + 1 + i};
      core_.on_message(now_, member, Hello{record_of(member), kRun});
      Ping ping;
      STARLING_ASSERT(ping.tokens.try_push(tokens_of(member)));
      core_.on_message(now_, member, ping);
      settle();
    }
    if (!fetches_) core_.on_progress(now_, 1'000'000, 0);
  }

  void step(Script& script) {
    const PeerId from{kSelf.value + 1U + script.below(kMembers)};
    const std::uint64_t snapshot = script.below(kSnapshots + 1);
    switch (script.below(12)) {
      case 0:
      case 1: pass(milliseconds(1 << script.below(15))); break;
      case 2:
      case 3: answer_keeper(script); break;
      case 4: core_.on_message(now_, from, offer(script, snapshot)); break;
      case 5: core_.on_message(now_, from, Piece{snapshot, piece(script)}); break;
      case 6: bring_what_is_asked(script); break;
      case 7: core_.on_message(now_, from, StateRequest{}); break;
      case 8:
        core_.on_message(now_, from, PieceRequest{snapshot, piece(script), script.next()});
        break;
      case 9:
        core_.on_message(
            now_, from,
            StateDeclined{static_cast<StateReason>(script.below(9)), 1U << script.below(32)});
        break;
      case 10: befall(script, from); break;
      default: core_.on_state(now_, NewCheckpoint{});
    }
    settle();
  }

  // Nobody but the keeper answers any more, and no donor comes.
  void end() {
    core_.on_exchanges_allowed(now_, true);
    settle();
    Script nothing({});
    const Instant over = now_ + minutes(30);
    while (now_ < over) {
      while (!orders_.empty()) {
        answer_keeper(nothing);
        settle();
      }
      pass(seconds(1));
    }
    STARLING_ASSERT(ended_ == (fetches_ ? 1 : 0));
    STARLING_ASSERT(served_ == 0);
  }

 private:
  static std::uint32_t piece(Script& script) {
    if (script.below(4) == 0) return kManifestPiece + script.below(kManifestPartsMax + 1);
    return script.below(kStateSections * kStripes + 1);
  }
  static StateOffer offer(Script& script, std::uint64_t snapshot) {
    StateOffer offer;
    offer.snapshot = snapshot;
    offer.step = script.next();
    offer.tokens = script.flip() ? 1'000'000 : script.next();
    for (std::size_t parts = script.below(kManifestPartsMax + 1); parts > 0; --parts) {
      STARLING_ASSERT(offer.manifest.try_push({}));
    }
    offer.sketch.values.fill(script.number());
    return offer;
  }

  // One of the pieces that it has asked for, as its donor gives it.
  void bring_what_is_asked(Script& script) {
    if (asked_.empty()) return;
    const auto place =
        static_cast<std::ptrdiff_t>(script.below(std::min<std::size_t>(asked_.size(), 255)));
    const auto [donor, request] = asked_[static_cast<std::size_t>(place)];
    asked_.erase(asked_.begin() + place);
    core_.on_message(now_, donor, Piece{request.snapshot, request.piece});
  }
  void befall(Script& script, PeerId peer) {
    switch (script.below(5)) {
      case 0: core_.on_send_failed(now_, peer); break;
      case 1: core_.on_exchanges_allowed(now_, script.flip()); break;
      case 2: answering_ = script.flip(); break;
      case 3: core_.on_message(now_, peer, Leave{record_of(peer)}); break;
      default: core_.on_message(now_, peer, Hello{record_of(peer, 1U + script.below(3)), kRun});
    }
  }

  // The oldest order, as a keeper carries it out; it may fail.
  void answer_keeper(Script& script) {
    if (orders_.empty()) return;
    const StateOrder order = orders_.front();
    orders_.pop_front();
    if (std::holds_alternative<PrepareSnapshot>(order)) {
      SnapshotReady ready;
      if (script.below(4) != 3) ready.offer = offer(script, 1 + script.below(kSnapshots));
      core_.on_state(now_, ready);
    } else if (const auto* read = std::get_if<ReadPiece>(&order)) {
      core_.on_state(now_, PieceReadDone{*read, static_cast<PieceRead>(script.below(3))});
    } else if (const auto* store = std::get_if<StorePiece>(&order)) {
      const std::size_t bytes = std::size_t{1} << script.below(21);
      core_.on_state(now_,
                     PieceStoredDone{*store, static_cast<PieceStored>(script.below(4)), bytes});
    } else if (std::holds_alternative<CheckState>(order)) {
      core_.on_state(now_, StateChecked{script.flip()});
    }
  }

  void note(const Action& action) override {
    if (const auto* order = std::get_if<StateOrder>(&action)) {
      if (!std::holds_alternative<ForgetPieces>(*order)) orders_.push_back(*order);
      STARLING_ASSERT(orders_.size() <= kOrdersMax);
    }
    if (std::holds_alternative<JoinEnded>(action)) ++ended_;
    if (const auto* join = std::get_if<JoinEvent>(&action)) {
      served_ += join->step == JoinStep::kServing ? 1 : 0;
      served_ -= join->step == JoinStep::kServed ? 1 : 0;
    }
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr) return;
    if (const auto* request = std::get_if<PieceRequest>(&send->message)) {
      if (asked_.size() < kOrdersMax) asked_.emplace_back(send->to, *request);
    }
  }

  const bool fetches_;
  std::deque<StateOrder> orders_;
  std::vector<std::pair<PeerId, PieceRequest>> asked_;
  int ended_ = 0;   // the fetching
  int served_ = 0;  // newcomers, at this moment
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script({data, std::min<std::size_t>(size, 4096)});
  Scene scene(script);
  while (!script.over()) scene.step(script);
  scene.end();
  return 0;
}

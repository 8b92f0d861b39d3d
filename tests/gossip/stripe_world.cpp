#include "tests/gossip/stripe_world.h"

#include "base/assert.h"

namespace starling::gossip {
namespace {

using World = StripeWorld;
using Side = StripeWorld::Side;
using Order = StripeWorld::Order;
using First = InitiatorStripe;
using Second = ResponderStripe;

std::uint8_t bit(std::uint8_t attempt) { return static_cast<std::uint8_t>(1U << attempt); }

unsigned cut_index(const StripeWorld::Cut& cut) { return cut.weights * 4U + cut.row; }

StripeWorld::Cut cut_of(unsigned index) {
  return {static_cast<std::uint8_t>(index / 4), static_cast<std::uint8_t>(index % 4)};
}

void remember_cut(Side& side) { side.cuts |= std::uint64_t{1} << cut_index(side.cut); }

// One step of the world at a time: each public function is one thing that may happen.
struct Move {
  World& world;
  const Limits& limits;

  void send(World::Kind kind, std::uint8_t attempt) { world.sent[kind] |= bit(attempt); }

  void first(First::Input input, std::uint8_t attempt) {
    First machine = world.first.known ? world.initiator : First::unknown();
    const First::Output output = machine.apply(input, attempt);
    const bool starts = output == First::Output::kEncode;
    perform(output, starts ? machine.attempt() : attempt);
    if (!world.first.known) return;
    world.initiator = machine;
    if (!machine.ended()) return;
    if (machine.state() == First::State::kOrphaned) world.first.orphaned = true;
    world.first.known = false;
    world.initiator = First::unknown();
  }

  void perform(First::Output output, std::uint8_t attempt) {
    switch (output) {
      case First::Output::kNothing: return;
      case First::Output::kEncode: world.first.orders.push({World::kEncode, attempt}); return;
      case First::Output::kPush: send(World::kPush, attempt); return;
      case First::Output::kApply: world.first.orders.push({World::kApply, attempt}); return;
      case First::Output::kCommit: send(World::kCommit, attempt); return;
      case First::Output::kAbort: send(World::kAbort, attempt); return;
      case First::Output::kResend: send(World::kResend, attempt); return;
      case First::Output::kCompensate: world.first.orders.push({World::kUndo, attempt}); return;
      case First::Output::kForget: world.first.orders.push({World::kForget, attempt}); return;
    }
  }

  void second(Second::Input input, std::uint8_t attempt) {
    const bool applied = world.second.cut.row == attempt + 1;
    Second machine = world.second.known ? world.responder : Second::remembered(applied, attempt);
    perform(machine.apply(input, attempt));
    if (!world.second.known) return;
    world.responder = machine;
    const bool unsettled = machine.staged() || machine.state() == Second::State::kApplying;
    if (!world.second.closed || unsettled) return;
    world.second.known = false;
    world.responder = Second();
  }

  void perform(const Second::Step& step) {
    if (step.drop) world.second.orders.push({World::kDrop, step.dropped});
    switch (step.output) {
      case Second::Output::kNothing: return;
      case Second::Output::kStage: world.second.orders.push({World::kStage, step.attempt}); return;
      case Second::Output::kReissue:
        if (world.second.orders.holds(World::kReissue)) return;  // one is as good as two
        world.second.orders.push({World::kReissue, step.attempt});
        return;
      case Second::Output::kSendDelta: send(World::kDelta, step.attempt); return;
      case Second::Output::kApply:
        world.second.orders.push({World::kApply, step.attempt});
        if (limits.planted == Planted::kCommittedBeforeApplied) {
          send(World::kCommitted, step.attempt);
        }
        return;
      case Second::Output::kCommitted:
        send(World::kCommitted, step.attempt);
        if (limits.planted == Planted::kAppliesTwice) {
          world.second.orders.push({World::kApply, step.attempt});
        }
        return;
      case Second::Output::kAbandoned: send(World::kAbandoned, step.attempt); return;
      case Second::Output::kQuery: send(World::kQuery, step.attempt); return;
    }
  }

  void deliver(World::Kind kind, std::uint8_t attempt) {
    switch (kind) {
      case World::kPush: push(attempt); return;
      case World::kCommit: second(Second::Input::kCommit, attempt); return;
      case World::kAbort: second(Second::Input::kAbort, attempt); return;
      case World::kResend: second(Second::Input::kResend, attempt); return;
      case World::kDelta: delta(attempt); return;
      case World::kCommitted: first(First::Input::kCommitted, attempt); return;
      case World::kAbandoned: first(First::Input::kAbandoned, attempt); return;
      case World::kQuery: first(First::Input::kQuery, attempt); return;
      case World::kDecline: first(First::Input::kClose, world.initiator.attempt()); return;
      case World::kKinds: return;
    }
  }

  // As in Responder::on_push: without a lease only what is staged goes on.
  void push(std::uint8_t attempt) {
    const bool same = world.second.known && world.responder.attempt() == attempt;
    if (world.second.closed && !same) {
      send(World::kDecline, 0);
    } else {
      second(Second::Input::kPush, attempt);
    }
  }

  void delta(std::uint8_t attempt) {
    if (limits.planted == Planted::kFenceForgotten && world.first.known) {
      const bool waits = world.initiator.state() == First::State::kSent;
      first(First::Input::kDelta, world.initiator.attempt());
      Order& last = world.first.orders.orders[0];
      if (waits) last.attempt = attempt;
      return;
    }
    first(First::Input::kDelta, attempt);
  }

  void first_mixer(bool ok) {
    Side& side = world.first;
    Order order = side.orders.pop();
    order.ok = ok;
    const std::uint8_t mask = bit(order.attempt);
    if (order.job == World::kApply && ok) {
      if (side.cut.weights != 0) world.broken = "an initiator applies twice";
      side.cut = {static_cast<std::uint8_t>(side.cut.weights | mask),
                  static_cast<std::uint8_t>(order.attempt + 1)};
    }
    if (order.job == World::kUndo) {
      if (side.cut.weights != mask) world.broken = "an initiator undoes what is not applied";
      side.cut = {};
    }
    if (order.job == World::kForget) side.cut.row = 0;
    remember_cut(side);
    if (order.job != World::kForget) side.answers.push(order);
  }

  void second_mixer(bool ok) {
    Side& side = world.second;
    Order order = side.orders.pop();
    const std::uint8_t mask = bit(order.attempt);
    if (order.job == World::kDrop) {
      side.staged &= static_cast<std::uint8_t>(~mask);
      return;
    }
    if (order.job == World::kStage && ok) side.staged |= mask;
    order.ok = ok && (side.staged & mask) != 0;
    if (order.job == World::kApply && order.ok) {
      if (side.cut.weights != 0) world.broken = "a responder applies twice";
      side.cut = {static_cast<std::uint8_t>(side.cut.weights | mask),
                  static_cast<std::uint8_t>(order.attempt + 1)};
      remember_cut(side);
      if (limits.planted != Planted::kAppliesTwice) {
        side.staged &= static_cast<std::uint8_t>(~mask);
      }
    }
    side.answers.push(order);
  }

  void first_answer() {
    const Order answer = world.first.answers.pop();
    using Input = First::Input;
    if (answer.job == World::kEncode) {
      first(answer.ok ? Input::kEncoded : Input::kEncodeFailed, answer.attempt);
    } else if (answer.job == World::kApply) {
      const bool forgot = limits.planted == Planted::kFenceForgotten;
      const std::uint8_t attempt = forgot ? world.initiator.attempt() : answer.attempt;
      first(answer.ok ? Input::kApplyDone : Input::kApplyFailed, attempt);
    } else {
      first(Input::kCompensateDone, answer.attempt);
    }
  }

  void second_answer() {
    const Order answer = world.second.answers.pop();
    using Input = Second::Input;
    if (answer.job == World::kApply) {
      second(answer.ok ? Input::kApplyDone : Input::kApplyFailed, answer.attempt);
    } else {
      second(answer.ok ? Input::kStageDone : Input::kStageFailed, answer.attempt);
    }
  }

  // Memory is lost; weights and ledger come back from one cut.
  static void restart(Side& side, unsigned cut) {
    side.rolled_back = side.rolled_back || cut != cut_index(side.cut);
    side.cut = cut_of(cut);
    side.known = false;
    side.closed = true;
    side.staged = 0;
    side.orders = {};
    side.answers = {};
  }

  void restart_first(unsigned cut) {
    restart(world.first, cut);
    const std::uint8_t row = world.first.cut.row;
    world.first.known = row != 0;
    world.initiator =
        row == 0 ? First::unknown() : First::restored(static_cast<std::uint8_t>(row - 1));
  }

  void restart_second(unsigned cut) {
    restart(world.second, cut);
    world.responder = Second();
    if (limits.planted != Planted::kRestartStagesAgain) return;
    world.second.known = true;
    world.second.closed = false;
  }
};

bool in_doubt(const World& world) {
  if (world.second.dead || !world.second.known) return false;
  return world.responder.staged() || world.responder.state() == Second::State::kApplying;
}

// Collects the worlds one step away.
class Explorer {
 public:
  Explorer(const World& world, const Limits& limits) : world_(world), limits_(limits) {}

  std::vector<Successor> all() {
    if (!world_.first.dead) explore_first();
    if (!world_.second.dead) explore_second();
    explore_messages();
    if (world_.crashes < limits_.crashes) explore_crashes();
    return std::move(found_);
  }

 private:
  template <class Step>
  void step(Step&& happen, bool misfortune = false) {
    World next = world_;
    happen(Move{next, limits_});
    const bool overflow = next.first.orders.overflow || next.first.answers.overflow ||
                          next.second.orders.overflow || next.second.answers.overflow;
    if (!overflow && next != world_) found_.push_back({next, misfortune});
  }

  void explore_first() {
    const Side& side = world_.first;
    for (const bool ok : {true, false}) {
      if (side.orders.size > 0) step([ok](Move move) { move.first_mixer(ok); });
    }
    if (side.answers.size > 0) step([](Move move) { move.first_answer(); });
    if (!side.known) return;
    for (const auto input : {First::Input::kSilence, First::Input::kRepeat}) {
      step([&](Move move) { move.first(input, move.world.initiator.attempt()); });
    }
    // Longer than any responder stays in doubt.
    if (!in_doubt(world_)) {
      step([](Move move) { move.first(First::Input::kGiveUp, move.world.initiator.attempt()); });
    }
    if (side.closed) return;
    step([](Move move) {
      move.world.first.closed = true;
      move.first(First::Input::kClose, move.world.initiator.attempt());
    });
  }

  void explore_second() {
    const Side& side = world_.second;
    for (const bool ok : {true, false}) {
      if (side.orders.size > 0) step([ok](Move move) { move.second_mixer(ok); });
    }
    if (side.answers.size > 0) step([](Move move) { move.second_answer(); });
    if (!side.known) return;
    if (world_.responder.state() == Second::State::kStaged) {
      for (const auto input : {Second::Input::kAsk, Second::Input::kGiveUp}) {
        step([&](Move move) { move.second(input, move.world.responder.attempt()); });
      }
    }
    if (side.closed) return;
    step([](Move move) {
      move.world.second.closed = true;
      move.second(Second::Input::kClose, move.world.responder.attempt());
    });
  }

  void explore_messages() {
    for (std::uint8_t kind = 0; kind < World::kKinds; ++kind) {
      const auto name = static_cast<World::Kind>(kind);
      const bool to_second = name == World::kPush || name == World::kCommit ||
                             name == World::kAbort || name == World::kResend;
      if ((to_second ? world_.second : world_.first).dead) continue;
      for (std::uint8_t attempt = 0; attempt < limits_.attempts; ++attempt) {
        if ((world_.sent[kind] & bit(attempt)) == 0) continue;
        step([&](Move move) { move.deliver(name, attempt); });
      }
    }
  }

  void explore_crashes() {
    for (const bool first : {true, false}) {
      const Side& side = first ? world_.first : world_.second;
      if (side.dead) continue;
      for (unsigned cut = 0; cut < 64; ++cut) {
        if ((side.cuts >> cut & 1U) == 0) continue;
        step(
            [&](Move move) {
              ++move.world.crashes;
              first ? move.restart_first(cut) : move.restart_second(cut);
            },
            true);
      }
      step(
          [&](Move move) {
            ++move.world.crashes;
            (first ? move.world.first : move.world.second).dead = true;
          },
          true);
    }
  }

  const World& world_;
  const Limits& limits_;
  std::vector<Successor> found_;
};

}  // namespace

void StripeWorld::Queue::push(Order order) {
  if (size == orders.size()) {
    overflow = true;
    return;
  }
  orders[size++] = order;
}

StripeWorld::Order StripeWorld::Queue::pop() {
  STARLING_ASSERT(size > 0);
  const Order order = orders[0];
  for (std::size_t i = 1; i < size; ++i) orders[i - 1] = orders[i];
  orders[--size] = {};
  return order;
}

bool StripeWorld::Queue::holds(std::uint8_t job) const {
  for (std::size_t i = 0; i < size; ++i) {
    if (orders[i].job == job) return true;
  }
  return false;
}

StripeWorld::StripeWorld(const Limits& limits) : initiator(limits.attempts) {
  first.orders.push({kEncode, 0});
}

std::vector<Successor> successors(const StripeWorld& world, const Limits& limits) {
  return Explorer(world, limits).all();
}

const char* violation(const StripeWorld& world) {
  if (world.broken != nullptr) return world.broken;
  if (world.first.rolled_back || world.second.rolled_back) return nullptr;
  const std::uint8_t initiator = world.first.cut.weights;
  const std::uint8_t responder = world.second.cut.weights;
  if (responder != 0 && initiator != responder) {
    return "a responder has applied what its initiator has not";
  }
  const bool ended = !world.first.known && !world.first.dead && world.first.orders.size == 0;
  if (ended && !world.first.orphaned && initiator != 0 && responder != initiator) {
    return "an initiator took for settled what its responder has not applied";
  }
  return nullptr;
}

bool is_settled(const StripeWorld& world) {
  const auto idle = [](const StripeWorld::Side& side) {
    return side.dead || (side.orders.size == 0 && side.answers.size == 0);
  };
  const bool first = world.first.dead || !world.first.known;
  return first && !in_doubt(world) && idle(world.first) && idle(world.second);
}

}  // namespace starling::gossip

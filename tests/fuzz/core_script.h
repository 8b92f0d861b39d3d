// What the targets that play scripts to a core share: the script that an input is read as, the
// members of the core's swarm, and a core in virtual time whose promises are checked.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "gossip/core.h"

namespace starling::gossip {

inline constexpr PeerId kSelf{1};
inline constexpr std::uint64_t kMembers = 3;  // with the ids behind that
inline constexpr RunIdentity kRun{7, 8, 9};
inline constexpr std::size_t kSaidAtOnceMax = 2000;

// Zero when it is over.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool over() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (over()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint8_t below(std::size_t limit) { return static_cast<std::uint8_t>(next() % limit); }
  bool flip() { return below(2) == 1; }
  float number() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr std::array kNumbers{1.0F,  0.5F,      0.0F,
                                  1e-3F, 2.0F,      -1.0F,
                                  1e9F,  kInfinity, std::numeric_limits<float>::quiet_NaN()};
    return kNumbers[next() % kNumbers.size()];
  }
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

inline PeerRecord record_of(PeerId id, std::uint64_t process = 1, std::uint64_t refutations = 0) {
  PeerRecord record;
  record.key = record_key({id, process}, refutations);
  STARLING_ASSERT(set_host(record.address, "member"));
  record.address.control_port = static_cast<std::uint16_t>(7000 + 2 * id.value);
  record.address.bulk_port = static_cast<std::uint16_t>(7001 + 2 * id.value);
  record.address.key = stand_in_key(id);
  record.signature = StandInSeal(id).sign(sealed_text(kRun.run, record));
  return record;
}

// A core and its time. Its invariants hold after whatever it is told, and it says a bounded number
// of things.
class CoreScene {
 public:
  virtual ~CoreScene() = default;
  CoreScene(const CoreScene&) = delete;
  CoreScene& operator=(const CoreScene&) = delete;

 protected:
  CoreScene(const GossipConfig& config, CoreIdentity identity)
      : core_(config, itself(std::move(identity)), {}, now_) {}

  virtual void note(const Action& action) = 0;

  void pass(Duration length) {
    const Instant end = now_ + length;
    for (;;) {
      const auto due = core_.next_deadline();
      if (!due || *due > end) break;
      STARLING_ASSERT(*due > now_ || ++stood_ < kSaidAtOnceMax);  // time goes on
      if (*due > now_) stood_ = 0;
      now_ = std::max(now_, *due);
      core_.on_deadline(now_);
      settle();
    }
    now_ = end;
  }
  // Until it has nothing more to say. The members answer its pings, if they do.
  void settle() {
    for (std::size_t said = 0;; ++said) {
      const auto action = core_.poll_action();
      if (!action) break;
      STARLING_ASSERT(said < kSaidAtOnceMax);
      answer(*action);
      note(*action);
    }
    core_.assert_invariants();
  }

  bool answering_ = true;   // the members, its pings
  std::uint64_t ping_ = 0;  // the last one's nonce

 private:
  CoreIdentity itself(CoreIdentity identity) const {
    identity.self = record_of(kSelf);
    identity.self.key = {kSelf, 1};
    identity.seal = &seal_;
    identity.run = kRun;
    return identity;
  }
  void answer(const Action& action) {
    const auto* send = std::get_if<Send>(&action);
    const auto* ping = send == nullptr ? nullptr : std::get_if<Ping>(&send->message);
    if (ping == nullptr) return;
    ping_ = ping->nonce;
    if (!answering_) return;
    Pong pong;
    pong.nonce = ping->nonce;
    core_.on_message(now_, send->to, pong);
  }

  StandInSeal seal_{kSelf};
  std::size_t stood_ = 0;

 protected:
  Instant now_{std::chrono::hours(1)};
  Core core_;
};

}  // namespace starling::gossip

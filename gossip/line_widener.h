// LineWidener: when payloads for one peer are worth one more TCP connection.
//
// One connection has no more under way than the kernel gives it memory for (net.ipv4.tcp_wmem and
// tcp_rmem: some megabytes), which on a long fat line is less than fits into a round trip. Only
// where that is what holds it up, and not the network, does another help: several connections that
// compete for a full line take more than their share of it, from others and from themselves. So
// one is added while the open ones spend most of a step with something to send and most of that
// behind a full buffer, and it must carry its part; if it did not, there is no other for a while.
// On short lines the buffers are full because the receiver is slow, so nothing is done there.
//
// Pure: whoever can see the connections calls update() some ten times a second. Connections end
// with their line. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace starling::gossip {

// What the connections of a line did, all together.
struct LineUse {
  std::uint64_t delivered = 0;  // bytes
  Duration busy{}, held{};      // had something to send; of that, behind a full buffer
  Duration round_trip{};        // the longest
};

class LineWidener {
 public:
  static constexpr std::size_t kConnectionsMax = 8;
  static constexpr Duration kStep = std::chrono::seconds(2);
  static constexpr Duration kRest = std::chrono::minutes(5);
  static constexpr Duration kLongRoundTrip = std::chrono::milliseconds(20);
  static constexpr double kBusyLeast = 0.5;  // of the time, each connection
  static constexpr double kHeldLeast = 0.5;  // of that
  static constexpr double kPartLeast = 0.5;  // of what the others carry each

  // `use`: since the last call. True: open one more.
  bool update(Instant now, std::size_t connections, const LineUse& use);

 private:
  bool judge(Instant now, std::size_t connections, double rate);

  std::optional<Instant> step_began_;
  LineUse step_;            // so far
  double rate_before_ = 0;  // bytes per second, before the last one was opened; 0: it was judged
  bool settling_ = false;   // TCP has yet to find its rate
  Instant rests_until_;
};

inline bool LineWidener::update(Instant now, std::size_t connections, const LineUse& use) {
  if (!step_began_) step_began_ = now;
  step_.delivered += use.delivered;
  step_.busy += use.busy;
  step_.held += use.held;
  step_.round_trip = std::max(step_.round_trip, use.round_trip);
  const Duration passed = now - *step_began_;
  if (passed < kStep) return false;
  step_began_ = now;
  const LineUse step = std::exchange(step_, {});
  const double all = to_seconds(passed) * static_cast<double>(connections);
  if (connections == 0 || to_seconds(step.busy) < kBusyLeast * all) return false;
  if (std::exchange(settling_, false)) return false;
  const double rate = static_cast<double>(step.delivered) / to_seconds(passed);
  if (!judge(now, connections, rate) || connections >= kConnectionsMax) return false;
  if (step.round_trip < kLongRoundTrip) return false;
  if (to_seconds(step.held) < kHeldLeast * to_seconds(step.busy)) return false;
  rate_before_ = rate;
  settling_ = true;
  return true;
}

// The last one opened carried its part, and so may the next.
inline bool LineWidener::judge(Instant now, std::size_t connections, double rate) {
  const double before = std::exchange(rate_before_, 0);
  if (before > 0 && connections > 1) {
    const double part = 1.0 / static_cast<double>(connections - 1);
    if (rate < before * (1 + kPartLeast * part)) rests_until_ = now + kRest;
  }
  return now >= rests_until_;
}

}  // namespace starling::gossip

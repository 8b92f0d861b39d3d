// What the targets that play scripts to a core share: the script that an input is read as, and the
// members of the core's swarm.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

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

}  // namespace starling::gossip

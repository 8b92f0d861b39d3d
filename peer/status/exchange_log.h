// ExchangeLog: how exchanges have ended lately, for those who watch: the last kRecentMax of them,
// how many by outcome, and what came of those with each partner.
//
// At most kPartnersMax partners; the one not met for longest makes room. Thread: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/time.h"
#include "gossip/actions.h"

namespace starling::peer {

class ExchangeLog {
 public:
  static constexpr std::size_t kRecentMax = 32;
  static constexpr std::size_t kPartnersMax = 1024;

  struct WithPartner {
    std::uint64_t completed = 0, declined = 0, failed = 0;
    Instant last_end;  // of any of them
    std::optional<Instant> last_completed;
    // What was left of differences that were clipped, in the mean of the last few exchanges. Who is
    // far behind is clipped for a while; who always is, is far from everybody or wants to be.
    double clip_factor = 1;
  };

  void note(Instant now, const gossip::ExchangeEnded& event);

  const WithPartner* with(PeerId partner) const;  // null: none is remembered
  nlohmann::json by_outcome() const;              // those that occurred
  nlohmann::json recent(Instant now) const;       // newest first

 private:
  struct Ended {
    Instant at;
    gossip::ExchangeEnded event;
  };

  std::deque<Ended> recent_;  // oldest first
  std::array<std::uint64_t, 6> outcomes_{};
  std::map<PeerId, WithPartner> partners_;
};

// The other side of an exchange of ours.
PeerId partner_of(const gossip::ExchangeEnded& event);

}  // namespace starling::peer

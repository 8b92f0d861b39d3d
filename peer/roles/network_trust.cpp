// Network: what its operator should know of refusals, of being out of reach and of relays; and the
// allow-list, which may change while the peer runs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/roles/network.h"
#include "peer/roles/refusals.h"

namespace starling::peer {

namespace {

constexpr Duration kUnreachedFirst = std::chrono::seconds(20);  // in company, but never called
constexpr Duration kUnreachedSince = std::chrono::minutes(3);   // which time is left for tests
constexpr Duration kUnreachedAgain = std::chrono::minutes(30);
constexpr Duration kLookEvery = std::chrono::seconds(1);  // at the allow-list

// Of whoever knocked and was turned away only the machine is known.
std::string text_of(const gossip::PeerAddress& address) {
  const bool knocked = !gossip::listens(address) && !address.host.empty();
  return knocked ? std::string(gossip::host(address)) : gossip::to_string(address);
}

}  // namespace

void Network::on_refused(const gossip::Refused& event) {
  const auto described = [](const gossip::RunIdentity& run) {
    return fmt::format("run {:016x} model {:016x} layout {:016x} versions {} to {}", run.run,
                       run.model, run.layout, run.versions.min, run.versions.max);
  };
  const std::string details =
      gossip::is_about_trust(event.reason)
          ? std::string()
          : fmt::format(" (ours: {}, theirs: {})", described(event.ours), described(event.theirs));
  const auto seed =
      std::find_if(config_.seeds.begin(), config_.seeds.end(),
                   [&](const auto& address) { return address.key == event.address.key; });
  const bool is_seed = seed != config_.seeds.end();
  if (is_seed) seed_refused_ = true;
  // Who refuses may know of itself no more than where it listens.
  const std::string where = text_of(is_seed ? *seed : event.address);
  if (event.by_us && event.reason == gossip::RefuseReason::kSelf) twin_at_ = now();
  if (!may_tell(now())) return;
  log_warning("{} the peer {} at {}: {}; {}{}", event.by_us ? "refused" : "refused by",
              gossip::to_string(event.address.key), where, gossip::to_string(event.reason),
              remedy_of(event.reason, event.by_us), details);
  note_event("refused", {{"address", where},
                         {"peer", gossip::to_string(gossip::id_of(event.address.key))},
                         {"reason", gossip::to_string(event.reason)},
                         {"by_us", event.by_us}});
}

// Whether others can open connections to this peer; if not, what its operator can do.
void Network::tell_reachability(Instant time) {
  if (!driver_) return;
  const gossip::PeerRecord& self = driver_->core().self();
  const std::uint64_t partners = driver_->core().stats().partners;
  if (self.dialable) {
    unreached_since_.reset();
    if (std::exchange(reached_, true)) return;
    reached_since_ = time;
    log_info("others can reach this peer at {}", gossip::to_string(self.address));
    return;
  }
  if (!unreached_since_ && partners > 0) {
    // A claim that was given up at once was made before those were met who are farther away.
    const bool stood = reached_ && time - reached_since_ >= kUnreachedFirst;
    unreached_since_ = time + (stood ? kUnreachedSince - kUnreachedFirst : Duration::zero());
  }
  if (!unreached_since_ || time - *unreached_since_ < kUnreachedFirst) return;
  unreached_since_ = time + kUnreachedAgain - kUnreachedFirst;
  reached_ = false;
  if (!gossip::listens(self.address)) {
    log_info("taking part through connections of its own to {} peers: gossip.listen is empty",
             partners);
    return;
  }
  log_warning(
      "this peer cannot be reached at {} by all of its peers ({}); open TCP ports {} and {}, or "
      "set "
      "gossip.advertise to an address that leads here from wherever they are. It takes part "
      "through "
      "connections of its own",
      gossip::to_string(self.address), partners, self.address.control_port, self.address.bulk_port);
}

void Network::on_relay_changed(const gossip::RelayChanged& event) {
  if (event.by_us && !may_tell(now())) return;
  if (event.by_us) {
    log_info("{} for peer {}, which cannot be called; for {} in all",
             event.on ? "relaying" : "no longer relaying", called(event.peer), event.in_all);
  } else {
    log_info("peer {} {} for this one, which cannot be called; {} in all", called(event.peer),
             event.on ? "relays" : "no longer relays", event.in_all);
  }
  note_event("relay",
             {{"peer", gossip::to_string(event.peer)}, {"by_us", event.by_us}, {"on", event.on}});
}

void Network::reload_allow_list(Instant time) {
  if (!driver_ || !allow_list_ || time - last_look_ < kLookEvery) return;
  last_look_ = time;
  auto list = allow_list_->look();
  if (!list) return;
  if (!list->ok()) {
    log_error("trust.allow has changed, but the old one stays in force: {}",
              list->error().message());
    return;
  }
  log_info("trust.allow has changed: {} keys may take part", list->value().size());
  names_ = list->value().names();
  driver_->allow(std::move(*list).value());
}

}  // namespace starling::peer

#include "gossip/relay_host.h"

#include <vector>

namespace starling::gossip {
namespace {

std::uint32_t milliseconds(Duration duration) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void RelayHost::on_ask(Instant now, PeerId from, const RelayAsk& ask) {
  if (!ask.wanted) {
    end(from);
    return;
  }
  const bool held = holders_.contains(from);
  const bool full = !held && holders_.size() >= context_.config.relay.holders_max;
  const bool willing =
      context_.config.relay.volunteer && context_.dialable && context_.serves_others();
  const Peer* peer = context_.peers.find(from);
  if (!willing || full || peer == nullptr) {
    context_.send(from, RelayDecline{milliseconds(kRetryFull)});
    return;
  }
  holders_[from] = now + kLease;
  context_.send(from, RelayGrant{milliseconds(kLease)});
  if (held) return;
  context_.emit(RelayFor{from, true});
  context_.emit(RelayChanged{from, true, true, holders_.size()});
}

void RelayHost::end(PeerId peer) {
  if (holders_.erase(peer) == 0) return;
  context_.emit(RelayFor{peer, false});
  context_.emit(RelayChanged{peer, true, false, holders_.size()});
}

void RelayHost::on_deadline(Instant now) {
  std::vector<PeerId> over;
  for (const auto& [peer, until] : holders_) {
    if (context_.resting || now >= until) over.push_back(peer);
  }
  for (const PeerId peer : over) {
    end(peer);
    context_.send(peer, RelayDecline{milliseconds(kRetryFull)});
  }
}

// Both ends are to find their lines here open as long as they speak through us.
void RelayHost::on_forwarded(PeerId from, PeerId to) {
  context_.open_line(from);
  context_.open_line(to);
}

}  // namespace starling::gossip

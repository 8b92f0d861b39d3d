#include "gossip/relay_host.h"

#include <algorithm>
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
  const bool willing =
      context_.config.relay.volunteer && context_.dialable && context_.serves_others();
  const Peer* peer = context_.peers.find(from);
  if (!willing || peer == nullptr || (!held && !make_room())) {
    context_.send(from, RelayDecline{milliseconds(kRetryFull)});
    return;
  }
  holders_[from] = now + kLease;
  context_.send(from, RelayGrant{milliseconds(kLease)});
  if (held) return;
  context_.emit(RelayFor{from, true});
  context_.emit(RelayChanged{from, true, true, holders_.size()});
}

void RelayHost::on_peer_lost(PeerId peer) {
  const Peer* const known = context_.peers.find(peer);
  if (known == nullptr || known->record.health == Health::kLeft) end(peer);
}

bool RelayHost::make_room() {
  if (holders_.size() < context_.config.relay.holders_max) return true;
  const auto lost = std::find_if(holders_.begin(), holders_.end(), [this](const auto& holder) {
    return !context_.peers.process(holder.first);
  });
  if (lost == holders_.end()) return false;
  end(PeerId{lost->first});
  return true;
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

#include "gossip/relay_choice.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

RelayChoice::Row* RelayChoice::find(PeerId relay) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.relay == relay; });
  return found == rows_.end() ? nullptr : &*found;
}

void RelayChoice::on_grant(Instant now, PeerId from, const RelayGrant& grant) {
  Row* row = find(from);
  const Duration lease = std::min<Duration>(kLeaseMost, std::chrono::milliseconds(grant.lease_ms));
  if (row == nullptr || lease < kLeaseLeast) {
    context_.refuse_message();
    return;
  }
  row->ends = now + lease;
  row->ask_again = now + lease / 2;
  if (std::exchange(row->held, true)) return;
  context_.emit(RelayChanged{from, false, true, held().size()});
}

void RelayChoice::on_decline(Instant now, PeerId from, const RelayDecline& decline) {
  Row* row = find(from);
  if (row == nullptr) return;
  const Duration asked_for = std::chrono::milliseconds(decline.retry_after_ms);
  drop(now, static_cast<std::size_t>(row - rows_.data()),
       std::clamp<Duration>(asked_for, kSilentRest, kLeaseMost));
}

void RelayChoice::on_peer_lost(Instant now, PeerId peer) {
  if (const Row* row = find(peer)) {
    drop(now, static_cast<std::size_t>(row - rows_.data()), Duration::zero());
  }
}

void RelayChoice::on_deadline(Instant now) {
  if (now < next_look_) return;
  next_look_ = now + context_.config.ping_interval;
  if (context_.uses_relays()) {
    look(now);
  } else {
    give_all_back(now);
  }
}

// The promises may have run out, and nobody was silent: they are asked again before they are left.
void RelayChoice::on_pause(Instant now) {
  for (Row& row : rows_) {
    if (!row.held) continue;
    row.ask_again = now;
    row.ends = std::max(row.ends, now + kWakesWithin);
  }
}

void RelayChoice::look(Instant now) {
  for (std::size_t i = rows_.size(); i-- > 0;) {
    Row& row = rows_[i];
    const bool late = now >= (row.held ? row.ends : row.ask_again);
    if (late || !context_.can_relay(now, row.relay)) {
      drop(now, i, late ? kSilentRest : Duration::zero());
    } else if (row.held && now >= row.ask_again) {
      row.ask_again = now + kAnswerMax;
      context_.send(row.relay, RelayAsk{});
    }
  }
  while (rows_.size() < kRelaysMax) {
    const auto relay = draw(now);
    if (!relay) return;
    ask(now, *relay);
  }
}

void RelayChoice::ask(Instant now, PeerId relay) {
  rows_.push_back({.relay = relay, .held = false, .ask_again = now + kAnswerMax, .ends = {}});
  context_.send(relay, RelayAsk{});
}

bool RelayChoice::may_ask(Instant now, PeerId relay) {
  return context_.can_relay(now, relay) && !resting_.contains(relay) && find(relay) == nullptr;
}

// Those that we are connected to anyway come first; of the others a few are looked at.
std::optional<PeerId> RelayChoice::draw(Instant now) {
  std::erase_if(resting_, [now](const auto& row) { return now >= row.second; });
  std::vector<PeerId> near;
  for (const PeerId id : context_.lines) {
    if (may_ask(now, id)) near.push_back(id);
  }
  if (!near.empty()) return near[static_cast<std::size_t>(context_.rng.below(near.size()))];
  const std::size_t rows = context_.peers.rows().size();
  for (std::size_t draws = std::min<std::size_t>(rows, kDraws); draws > 0; --draws) {
    const PeerId id = context_.peers.draw(context_.rng).record.key.id;
    if (may_ask(now, id)) return id;
  }
  return std::nullopt;
}

void RelayChoice::drop(Instant now, std::size_t row, Duration rest) {
  const Row gone = rows_[row];
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(row));
  if (rest > Duration::zero() && resting_.size() < kRestingMax) resting_[gone.relay] = now + rest;
  if (gone.held) context_.emit(RelayChanged{gone.relay, false, false, held().size()});
}

void RelayChoice::give_all_back(Instant now) {
  while (!rows_.empty()) {
    context_.send(rows_.back().relay, RelayAsk{.wanted = false});
    drop(now, rows_.size() - 1, Duration::zero());
  }
}

RelayChoice::RelayList RelayChoice::held() const {
  RelayList list;
  for (const Row& row : rows_) {
    if (row.held) STARLING_ASSERT(list.try_push(row.relay));
  }
  return list;
}

bool RelayChoice::involves(PeerId peer) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [peer](const Row& row) { return row.relay == peer; });
}

}  // namespace starling::gossip

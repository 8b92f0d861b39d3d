#include "gossip/part_gossip.h"

#include <algorithm>

namespace starling::gossip {
namespace {

// What a tick looks at, whatever the swarm's size.
constexpr std::size_t kReaderDraws = 16;
constexpr std::size_t kClaimsLookedAt = 64;
constexpr std::uint64_t kOwnDice = 0x7061727473;  // apart from everybody else's

bool is_present(const Peer& peer) {
  return peer.record.health == Health::kAlive || peer.record.health == Health::kSuspect;
}

// The reader with the highest score for a part has it.
std::uint64_t score(PeerId reader, std::uint16_t part) { return mix64(reader.value ^ mix64(part)); }

}  // namespace

PartGossip::PartGossip(CoreContext& context, const CoreIdentity& identity,
                       const RestoredState& restored, Instant now)
    : context_(context),
      space_(identity.data.digest),
      map_(identity.data.parts, restored.passes),
      rng_(Rng(identity.seed).fork(kOwnDice)) {
  own_.holder = context_.self;
  const auto interval = static_cast<std::uint64_t>(context_.config.ping_interval.count());
  next_tick_ = now + Duration(static_cast<Duration::rep>(rng_.below(interval)));
}

std::optional<Instant> PartGossip::next_deadline() const {
  if (map_.parts() == 0) return std::nullopt;
  return next_tick_;
}

void PartGossip::on_parts(PeerId from, const Parts& message) {
  if (message.space != space_) {
    if (const auto process = context_.peers.process(from))
      others_data_[from] = process->incarnation;
    // Without content, so that there is no answer to the answer.
    Parts other_data;
    other_data.space = space_;
    const bool wants_to_know = !message.passes.empty() || !message.claims.empty();
    if (wants_to_know) context_.send(from, other_data);
    return;
  }
  others_data_.erase(from);
  for (const PartPasses& entry : message.passes) {
    if (entry.part >= map_.parts()) ++refused_;
    map_.merge(entry);
  }
  for (const PartClaim& claim : message.claims) {
    if (claim.holder.id == context_.self.id) continue;  // nobody knows better than we do
    const bool known = std::all_of(claim.parts.begin(), claim.parts.end(),
                                   [this](std::uint16_t part) { return part < map_.parts(); });
    if (!known || !may_follow(claim)) {
      ++refused_;
    } else if (holds(claim)) {  // that of a process we have not heard of yet is told again
      map_.merge(claim);
    }
  }
}

void PartGossip::on_finished(std::uint16_t part, std::uint16_t times) {
  STARLING_ASSERT(part < map_.parts());
  map_.finish(part, times);
}

void PartGossip::on_held(std::span<const std::uint16_t> parts) {
  ++own_.sequence;
  own_.parts.clear();
  for (const std::uint16_t part : parts) {
    STARLING_ASSERT(part < map_.parts());
    STARLING_ASSERT(own_.parts.try_push(part));
  }
  map_.merge(own_);
}

void PartGossip::on_deadline(Instant now) {
  if (map_.parts() == 0 || now < next_tick_) return;
  next_tick_ = now + context_.config.ping_interval;
  forget_the_gone();
  const auto reader = draw_reader();
  if (!reader) return;
  Parts message;
  message.space = space_;
  map_.fill(message.passes);
  map_.fill(message.claims, context_.self.id, rng_,
            [this](const PartClaim& claim) { return holds(claim); });
  context_.send(*reader, message);
}

// Of a process that runs, as far as we know: everything else has lapsed, or has not begun for us.
bool PartGossip::holds(const PartClaim& claim) const {
  const Peer* peer = context_.peers.find(claim.holder.id);
  return peer != nullptr && is_present(*peer) && process_of(peer->record) == claim.holder;
}

// Worth keeping: of a member, and not of one of its former lives.
bool PartGossip::may_follow(const PartClaim& claim) const {
  const Peer* peer = context_.peers.find(claim.holder.id);
  return peer != nullptr && is_present(*peer) &&
         process_of(peer->record).incarnation <= claim.holder.incarnation;
}

bool PartGossip::may_read(const Peer& peer) const {
  if (!peer.welcomed || peer.record.health != Health::kAlive) return false;
  const auto other = others_data_.find(peer.record.key.id);
  return other == others_data_.end() || other->second != process_of(peer.record).incarnation;
}

std::optional<PeerId> PartGossip::draw_reader() {
  const auto& rows = context_.peers.rows();
  std::vector<PeerId> readers;
  if (rows.size() <= kReaderDraws) {
    for (const auto& [id, peer] : rows) {
      if (may_read(peer)) readers.push_back(id);
    }
  } else {
    for (std::size_t draws = kReaderDraws; draws > 0; --draws) {
      const Peer& peer = context_.peers.draw(rng_);
      if (may_read(peer)) return peer.record.key.id;
    }
    for (const PeerId id : context_.lines) {
      if (may_read(*context_.peers.find(id))) readers.push_back(id);
    }
  }
  if (readers.empty()) return std::nullopt;
  return readers[static_cast<std::size_t>(rng_.below(readers.size()))];
}

void PartGossip::forget_the_gone() {
  map_.forget_some(kClaimsLookedAt, [this](const PartClaim& claim) {
    return claim.holder != context_.self && !may_follow(claim);
  });
  std::erase_if(others_data_,
                [this](const auto& item) { return context_.peers.find(item.first) == nullptr; });
}

std::vector<PartView> PartGossip::views() const {
  std::vector<PartView> all(map_.parts());
  for (std::uint16_t part = 0; part < map_.parts(); ++part) all[part].passes = map_.passes(part);
  std::vector<PeerId> readers;
  map_.each_claim([&](const PartClaim& claim) {
    if (claim.holder == context_.self || !holds(claim)) return;
    readers.push_back(claim.holder.id);
    for (const std::uint16_t part : claim.parts) {
      std::uint8_t& claims = all[part].claims;
      claims = static_cast<std::uint8_t>(std::min(claims + 1, 255));
    }
  });
  if (readers != readers_ || ours_.empty()) {
    readers_ = std::move(readers);
    ours_.assign(map_.parts(), false);
    for (std::uint16_t part = 0; part < map_.parts(); ++part) {
      const std::uint64_t own = score(context_.self.id, part);
      ours_[part] = std::none_of(readers_.begin(), readers_.end(),
                                 [&](PeerId reader) { return score(reader, part) > own; });
    }
  }
  for (std::uint16_t part = 0; part < map_.parts(); ++part) all[part].ours = ours_[part];
  return all;
}

}  // namespace starling::gossip

#include "gossip/peer_pace.h"

#include <algorithm>
#include <cmath>

namespace starling::gossip {
namespace {

constexpr double kKept = 0.875;        // of the older payloads' weight, per payload
constexpr double kPayloadSlack = 4;    // other transfers share the line
constexpr double kUnmeasured = 8e-6;   // seconds a byte: 1 Mbit/s
constexpr int kSilencesMax = 6;        // doublings
constexpr double kLongest = 3600;      // seconds: keeps the arithmetic in range
constexpr std::uint16_t kMany = 1024;  // more than any window

}  // namespace

void PayloadRate::add(std::size_t bytes, Duration taken) {
  if (taken < Duration::zero()) return;
  bytes_ = kKept * bytes_ + static_cast<double>(bytes);
  seconds_ = kKept * seconds_ + to_seconds(taken);
}

std::optional<double> PayloadRate::seconds_per_byte() const {
  if (bytes_ <= 0) return std::nullopt;
  return seconds_ / bytes_;
}

void PeerPace::on_round_trip(Duration sample) {
  if (sample < Duration::zero()) return;  // asked before a pause of ours: it measures nothing
  if (!srtt_) {
    srtt_ = sample;
    rttvar_ = sample / 2;
    return;
  }
  const Duration error = sample > *srtt_ ? sample - *srtt_ : *srtt_ - sample;
  rttvar_ = (3 * rttvar_ + error) / 4;
  srtt_ = (7 * *srtt_ + sample) / 8;
}

Duration PeerPace::on_answer(std::size_t bytes, const Answer& answer) {
  // Behind another one it had the line from when that one was answered; first in line it waited
  // for a round trip, too, of which the estimate may be larger than it was this time.
  const bool first = answer.sent >= answer.before;
  const Duration whole = answer.answered - (first ? answer.sent : answer.before);
  const Duration taken =
      first && whole > Duration::zero() ? std::max(whole - round_trip(), whole / 4) : whole;
  silences_ = 0;
  rate_.add(bytes, taken);
  return taken;
}

void PeerPace::on_silence() { silences_ = std::min(silences_ + 1, kSilencesMax); }

std::optional<Duration> PeerPace::answer_within() const {
  if (!srtt_) return std::nullopt;
  return *srtt_ + 4 * rttvar_;
}

Duration PeerPace::payload_within(std::size_t bytes, const PayloadRate& all) const {
  const double each =
      std::max(rate_.seconds_per_byte().value_or(kUnmeasured), all.seconds_per_byte().value_or(0));
  const double transfer = kPayloadSlack * each * static_cast<double>(bytes);
  const Duration once =
      answer_within().value_or(Duration::zero()) + from_seconds(std::min(transfer, kLongest));
  return once * (1 << silences_);
}

std::uint16_t PeerPace::payloads_under_way(std::size_t bytes, Duration ahead) const {
  const auto known = rate_.seconds_per_byte();
  if (!known) return 1;
  const double each = *known * static_cast<double>(bytes);
  const double count = to_seconds(round_trip() + ahead) / std::max(each, 1e-9);
  return static_cast<std::uint16_t>(std::clamp(count, 1.0, double{kMany}));
}

PeerPace& Paces::of(Instant now, PeerId peer) { return row_of(now, peer).pace; }

const PeerPace* Paces::find(PeerId peer) const {
  const auto found = rows_.find(peer);
  return found == rows_.end() ? nullptr : &found->second.pace;
}

void Paces::on_asked(Instant now, PeerId peer, std::uint64_t nonce) {
  Row& row = row_of(now, peer);
  row.nonce = nonce;
  row.asked_at = now;
  row.asked = true;
}

void Paces::on_answered(Instant now, PeerId peer, std::uint64_t nonce) {
  Row& row = row_of(now, peer);
  if (!row.asked || row.nonce != nonce) return;
  row.asked = false;
  row.pace.on_round_trip(now - row.asked_at);
}

void Paces::forget_questions() {
  for (auto& [peer, row] : rows_) row.asked = false;
}

void Paces::on_payload(Instant now, PeerId peer, std::size_t bytes,
                       const PeerPace::Answer& answer) {
  all_.add(bytes, of(now, peer).on_answer(bytes, answer));
}

void Paces::on_silence(Instant now, PeerId peer, std::size_t bytes, Duration waited) {
  of(now, peer).on_silence();
  all_.add(bytes, waited);
}

Duration Paces::payload_within(Instant now, PeerId peer, std::size_t bytes) {
  return of(now, peer).payload_within(bytes, all_);
}

Duration Paces::payload_within(PeerId peer, std::size_t bytes) const {
  const PeerPace* pace = find(peer);
  return pace == nullptr ? Duration::zero() : pace->payload_within(bytes, all_);
}

Paces::Row& Paces::row_of(Instant now, PeerId peer) {
  const auto found = rows_.find(peer);
  if (found != rows_.end()) {
    found->second.used_at = now;
    return found->second;
  }
  if (rows_.size() == kRowsMax) {
    rows_.erase(
        std::min_element(rows_.begin(), rows_.end(), [](const auto& left, const auto& right) {
          return left.second.used_at < right.second.used_at;
        }));
  }
  Row& row = rows_[peer];
  row.used_at = now;
  return row;
}

}  // namespace starling::gossip

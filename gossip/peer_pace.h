// Paces: how fast each peer has been, so that deadlines follow what was measured.
//
// The round trip is smoothed as in RFC 6298 (section 2): srtt, rttvar, limit srtt + 4 rttvar. The
// rate of payloads is bytes over time of the answered ones, older ones counting ever less; large
// payloads decide, small ones measure mostly the round trip. A payload may take four times what
// the rate says, because other transfers come and go on the same line. Until a payload is measured
// the line counts as one of 1 Mbit/s: too long a patience costs a slot for a while, and that is all
// of a peer's own exchanges; too short a one a transfer, which the next attempt waits longer for.
// An exchange that ended in silence doubles the patience until something is measured again
// (RFC 6298, 5.5): a line that became slow is found out, too. A sample that began before a pause of
// our own, whose times were moved, counts for nothing.
//
// Most of the way to any peer is our own line, and of many partners each is met seldom. So all are
// taken to be no faster than the mean payload lately, whoever it went to; one that was waited for
// in vain counts as if it had been answered at last. Else a line on which payloads take longer than
// the first guess would carry nothing but what nobody waits for any more, and each partner would
// have to be found slow by itself.
//
// At most kRowsMax peers; the one not used for longest makes room. Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

// The mean of payloads; older ones count ever less.
class PayloadRate {
 public:
  void add(std::size_t bytes, Duration taken);  // negative: began before a pause of ours
  std::optional<double> seconds_per_byte() const;

 private:
  double bytes_ = 0;  // decayed
  double seconds_ = 0;
};

class PeerPace {
 public:
  void on_round_trip(Duration sample);
  // A payload of an exchange: when it was sent, when the one before it was answered, and when it.
  struct Answer {
    Instant sent, before, answered;
  };
  Duration on_answer(std::size_t bytes, const Answer& answer);  // how long the line had it
  void on_silence();  // an exchange ended for want of an answer

  // Between a question and its answer; empty: not known.
  std::optional<Duration> answer_within() const;
  // Between a payload and its answer, where payloads to anybody are as in `all`.
  Duration payload_within(std::size_t bytes, const PayloadRate& all = {}) const;
  // Payloads of `bytes` that fill the line for a round trip and `ahead`; 1 while nothing is known.
  std::uint16_t payloads_under_way(std::size_t bytes, Duration ahead) const;
  Duration round_trip() const { return srtt_.value_or(Duration::zero()); }

 private:
  std::optional<Duration> srtt_;
  Duration rttvar_{};
  PayloadRate rate_;
  int silences_ = 0;
};

class Paces {
 public:
  static constexpr std::size_t kRowsMax = 1024;

  PeerPace& of(Instant now, PeerId peer);
  const PeerPace* find(PeerId peer) const;  // null: nothing is known; makes no row
  // A question that its answer names: a ping and its pong.
  void on_asked(Instant now, PeerId peer, std::uint64_t nonce);
  void on_answered(Instant now, PeerId peer, std::uint64_t nonce);
  void forget_questions();  // this process stood still: their answers tell nothing
  // What a payload teaches about one peer, and about all.
  void on_payload(Instant now, PeerId peer, std::size_t bytes, const PeerPace::Answer& answer);
  void on_silence(Instant now, PeerId peer, std::size_t bytes, Duration waited);
  Duration payload_within(Instant now, PeerId peer, std::size_t bytes);
  Duration payload_within(PeerId peer, std::size_t bytes) const;  // zero: nothing is known
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    PeerPace pace;
    std::uint64_t nonce = 0;
    Instant asked_at{};
    bool asked = false;
    Instant used_at{};
  };
  Row& row_of(Instant now, PeerId peer);

  std::map<PeerId, Row> rows_;
  PayloadRate all_;
};

}  // namespace starling::gossip

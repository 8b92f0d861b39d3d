// GossipConfig: every knob of the protocol core, with its unit and why it exists. Plain values;
// the peer fills them from its configuration file.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

// How a newcomer gets the others' weights before it trains, and how it gives its own.
struct StateConfig {
  bool moments = true;                           // also the second ones of AdamW
  std::uint32_t donors_max = 4;                  // fetched from at once
  std::uint32_t serve_max = 2;                   // newcomers served at once
  Duration wait = std::chrono::seconds(2);       // for word of a peer that has trained
  Duration patience = std::chrono::seconds(60);  // without a new piece: give up and train
};

// Peers that cannot be dialled exchange with each other through one that forwards.
struct RelayConfig {
  bool volunteer = false;          // forward for others, once others can dial this peer
  bool use = true;                 // have others forward, while nobody can dial this peer
  std::uint32_t holders_max = 32;  // peers forwarded to
};

// A wire format that goes together with others of its kind, and the version of the wire from which
// on peers know it.
struct Code {
  std::uint8_t format = 0;
  std::uint8_t since = 1;
};

// Above, a swarm would mix at less than half its rate where the distances are large.
inline constexpr double kLocalityMax = 0.5;

struct GossipConfig {
  // Membership.
  Duration ping_interval = std::chrono::seconds(1);  // one peer is probed this often, each in turn
  // A probe, direct and through others, that is unanswered this long makes its target suspect.
  // Three times that where a line must be dialled first.
  Duration suspect_after = std::chrono::seconds(3);
  // A suspect that three others doubt too is dead after this, times log10 of a larger swarm than
  // ten; six times later if nobody else doubts it.
  Duration dead_after = std::chrono::seconds(5);
  Duration redial_interval = std::chrono::seconds(5);  // seeds and the dead are greeted this often
  std::uint32_t peers_max = 1024;  // records kept; of a larger swarm a changing sample is known

  // Exchange.
  float mixing = 0.5F;      // g: how far a pair moves together (0.5: to the middle)
  double rate_power = 2;    // kappa: what a peer counts for by its speed (rate_weight.h)
  double lag_discount = 1;  // how much less what is late counts for (freshness.h); 0: no less
  std::uint8_t format = 2;  // wire format wanted; opaque here
  // From most to fewest bits: a pair takes the one with fewer. Everybody knows the first.
  std::array<Code, 4> codes{{{2, 1}, {4, 4}, {5, 4}, {3, 1}}};
  std::uint8_t cold_format = 1;          // format that needs no scales
  std::uint32_t initiated_max = 1;       // exchanges under way that this peer began
  std::uint32_t accepted_max = 2;        // exchanges under way that others began
  std::uint16_t window = 4;              // stripes under way in one exchange
  std::uint8_t attempts_max = 3;         // attempts at one stripe
  std::uint32_t partners_tried_max = 3;  // candidates asked before a round is skipped
  double locality = 0;  // share of the draws that prefer near partners (peer_sampler.h)
  // Deadlines follow what was measured of a peer (peer_pace.h), between these: the first two are
  // the longest, and hold while nothing is known; the others are the shortest.
  Duration offer_timeout = std::chrono::seconds(5);    // an offer without an answer
  Duration stripe_timeout = std::chrono::seconds(60);  // silence before an attempt is fenced
  Duration silence_min = std::chrono::seconds(2);      // the shortest of the two above
  Duration query_after = std::chrono::seconds(10);     // a staged delta without a commit: ask
  Duration commit_retry =
      std::chrono::seconds(1);  // first repeat of an unanswered commit; doubles to 30 s
  Duration responder_gives_up = std::chrono::minutes(30);  // a staged delta whose outcome is open
  // A fresh peer has weight 0 where the others have trained more than this, on average.
  std::uint64_t newcomer_tokens = 65536;
  // So is one whose checkpoint others have trained on from for longer.
  Duration missed_max = std::chrono::minutes(30);
  Duration initiator_gives_up =
      std::chrono::minutes(45);        // after the responder: its outcome is fixed by then
  std::uint32_t connections_max = 64;  // peers that lines are kept to, idle ones beyond are closed

  StateConfig state;
  RelayConfig relay;
};

}  // namespace starling::gossip

// The admission gate: what a payload of another peer must pass before it may touch a weight. Each
// check that fails has a name (gossip/reject_reason.h), which goes back to the sender.
//
//   check                                     by           fails as
//   header, length, layout, codes             both         malformed
//   format as agreed                          both         not the agreed format
//   every value finite                        both         not finite
//   sender's weights 1/16 to 16 times ours    both         weights of another size
//   difference within the agreed radius       initiator    beyond the agreed clip radius
//   at most kRoundsLateMax outer steps old    initiator    too old
//   this attempt never applied before         both         applied already (the ledger, in mixer)
//   differences that wrapped around           both         left out block by block (the codec)
//
// The frame's digest was checked before it came here (gossip/wire/wire.h), names, stripes and
// exchange ids by the protocol core. The responder clips, so both sides apply the same; the
// initiator only sees to it that it was done. Pure functions over bytes and floats. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gossip/reject_reason.h"
#include "optim/fragment_codec.h"

namespace starling::peer {

// Weights of peers that learn together are of one size: norms of a tensor differ by percents.
inline constexpr double kSizeRatioMax = 16;
// Stripes smaller than this count as this large: zeros at the start must not shut others out.
inline constexpr double kSizeMin = 1.0 / 1024;
// Outer steps of the stripe since it was encoded. Age only makes the difference less accurate
// (the sum over both sides stays what it was); after so many it is not worth applying.
inline constexpr std::uint64_t kRoundsLateMax = 8;
// The radius is kept by a product of rounded numbers, in bf16 of coarsely rounded ones.
inline constexpr double kClipSlack = 1.01;
// Clipped to less than this share: the partner is far away, which is a reason to doubt it.
inline constexpr float kFarClip = 1.0F / 16;

// A stripe and what both sides agreed on for it.
struct GateStripe {
  std::span<const float> slow;                         // ours
  optim::WireFormat format = optim::WireFormat::kF32;  // agreed
  float clip_radius = 0;                               // agreed; 0: none
  std::uint64_t key = 0;                               // of the dither
};

// Where a difference goes: as large as the stripe, and a report for each of its blocks.
struct GateTarget {
  std::span<float> difference;
  std::span<optim::BlockReport> blocks;
};

// What is in `target`, `delta` and `report` means something only when the verdict is "done".
// The responder: `push` against our weights, to a delta in `delta`, of delta_bytes() of the agreed
// format. The difference stays undecoded.
gossip::Verdict admit_push(const GateStripe& stripe, std::span<const std::byte> push,
                           const GateTarget& target, std::span<std::byte> delta,
                           optim::DeltaReport& report);
// The initiator: `rounds_late` outer steps after the push was encoded.
gossip::Verdict admit_delta(const GateStripe& stripe, std::span<const std::byte> delta,
                            std::uint64_t rounds_late, const GateTarget& target,
                            optim::DeltaReport& report);

}  // namespace starling::peer

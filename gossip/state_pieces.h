// The pieces of a state that a newcomer fetches: how a checkpoint of its donor is divided, and what
// is taken of it. Part of the protocol: peers of one wire version agree on all of this.
//
// A state has four sections of one piece per stripe: piece `section * stripes + stripe`. The parts
// of the manifest, which holds the digests of all pieces in order, are the pieces from
// kManifestPiece on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace starling::gossip {

inline constexpr std::uint32_t kStateSections = 4;   // slow weights, two moments, outer momentum
inline constexpr std::size_t kPieceBytes = 1 << 20;  // of all pieces but a fragment's last
inline constexpr std::uint32_t kManifestPiece = 1U << 31;
inline constexpr std::uint32_t kDigestsPerPart = 32768;  // 1 MiB
inline constexpr std::size_t kManifestPartsMax = 8;

// What a newcomer takes, one bit for each section: the weights, and perhaps the second moments,
// which only ever divide. First moment and outer momentum start at zero: they would move the
// weights as far as one donor likes, and are anew within some steps and rounds.
constexpr std::uint8_t sections_taken(bool moments) { return moments ? 0b0101 : 0b0001; }
constexpr std::uint32_t sections_count(bool moments) {
  return static_cast<std::uint32_t>(std::popcount(sections_taken(moments)));
}

}  // namespace starling::gossip

// SimNetwork, the part that has bytes: messages as the frames that a link would send, whole and
// damaged. Most travel as they are, for bytes cost more than all else; some are read from their
// frames, each at the version of its pair. What an envelope holds is authenticated: damaged, it is
// lost, and that is a fault of its own.
#include "base/assert.h"
#include "gossip/sim/sim_network.h"
#include "gossip/wire/wire.h"

namespace starling::gossip {
namespace {

constexpr std::uint64_t kReadEvery = 128;  // messages

}  // namespace

// One swarm speaks two adjacent versions; some of those that speak the later one still know older
// ones than they need.
Versions SimNetwork::draw_versions(Rng rng) const {
  const auto steps = static_cast<std::uint64_t>(kVersions.max - kVersions.min);
  Rng swarm = Rng(options_.seed).fork(0x7E5);
  const auto older = static_cast<std::uint8_t>(kVersions.min + swarm.below(steps));
  const auto spare = rng.below(older - kVersions.min + std::uint64_t{1});
  return {static_cast<std::uint8_t>(older - spare),
          static_cast<std::uint8_t>(older + (rng.chance(0.5) ? 1 : 0))};
}

std::vector<std::byte> SimNetwork::frame_of(Route route, const Message& message) const {
  const auto version =
      common_version(processes_[route.from].versions, processes_[route.to].versions);
  STARLING_ASSERT(version.has_value());
  const PeerId from = sim_peer_id(route.from);
  if (!is_bulk(message)) return encode(from, message, *version);
  std::vector<std::byte> frame(kBulkHeadBytes + 1);  // with a payload of a byte
  encode_bulk_head(from, message, frame, *version);
  return frame;
}

// Some messages are made frames and read again: then `read` is what came of it. False: it cannot be
// read, and only a hostile peer says such a thing.
bool SimNetwork::reads_back(Route route, const Message& message, std::optional<Message>& read) {
  if (++said_ % kReadEvery != 0) return true;
  const std::vector<std::byte> frame = frame_of(route, message);
  auto decoded = decode(frame, processes_[route.to].versions);
  ++stats_[SimCount::kReadFromFrames];
  if (decoded.ok()) {
    read = decoded.value().message;
    if (frame_of(route, *read) != frame)
      audit_.fail(now_, route.from, "its frame is not canonical");
    return true;
  }
  if (!processes_[route.from].hostile) {
    audit_.fail(now_, route.from, "its frame cannot be read: " + decoded.error().message());
  }
  return false;
}

// A frame that is no message, as the link takes it. kDamaged or kOtherVersion: the line has changed
// it, not its sender.
void SimNetwork::take_bad_frame(Route route, RejectReason reason) {
  Process& process = processes_[route.to];
  reads_damage_ = reason != RejectReason::kMalformed;
  process.core->on_bad_frame(local_now(process), sim_peer_id(route.from), reason);
  drain(route.to, nullptr);
  reads_damage_ = false;
}

void SimNetwork::take_damaged(const Parcel& parcel) {
  std::vector<std::byte> frame = frame_of(parcel.route, parcel.message);
  const auto bit = static_cast<std::size_t>(wire_rng_.below(8 * frame.size()));
  const bool passes = options_.bug == SeededBug::kPassesDamage;
  if (!passes) frame[bit / 8] ^= std::byte{1} << (bit % 8);
  ++stats_[SimCount::kDamaged];
  const auto decoded = decode(frame, processes_[parcel.route.to].versions);
  if (decoded.ok()) {
    audit_.fail(now_, parcel.route.to, "takes a damaged frame for a message");
    return;
  }
  take_bad_frame(parcel.route, undecoded_reason(decoded.error().code()));
}

}  // namespace starling::gossip

// VirtualNetwork: when a message between two virtual peers arrives, if at all, and who has sent how
// much. It moves nothing.
//
// A message takes the latency of the pair, and its bytes over the rate of the pair: the least of
// the sender's upload, the receiver's download and what lies between their regions (that is the
// limit of one message, not of several together). Weights queue for both lines, each of which is
// taken for as long as the bytes need at its own rate: a fast line serves several slow ones at a
// time (line_time.h). What still waits for its sender's line does not take its receiver's. Small
// messages have a lane of their own and do not wait. What leaves while a partition stands between
// the two is lost.
//
// Peers of a room share its line to all others, which adds its latency and queues likewise.
//
// Thread: one owner; chance is drawn in the order of the calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "peer/simulate/line_time.h"

namespace starling::peer {

// Ten regions of a cloud, as measured by Yuan and others, "Decentralized training of foundation
// models in heterogeneous environments", NeurIPS 2022 (DT-FM): the table of pairs in
// scheduler/generate_sim_com_matrices.py of its repository, and 10 ms and 2 Gbit/s within a region.
// Like its cost model this takes the delays as those of one way.
inline constexpr std::array<std::string_view, 10> kRegionNames{
    "Oregon",    "Virginia", "Ohio",   "Tokyo",     "Seoul",
    "Singapore", "Sydney",   "London", "Frankfurt", "Ireland"};

struct RegionPair {
  double delay_ms = 0;
  double gigabits = 0;  // per second
};
RegionPair between_regions(std::size_t one, std::size_t other);

struct VirtualLine {
  Duration latency{};                   // one way
  double upload = 0, download = 0;      // bytes per second
  double loss = 0;                      // chance of a message
  std::optional<std::size_t> region{};  // of kRegionNames; then its table has the latency
  std::optional<std::size_t> room{};    // the first is 0
};
// What the peers of a room share.
struct VirtualRoom {
  Duration latency{};               // one way, beside that of the peers' lines
  double upload = 0, download = 0;  // bytes per second
};

struct VirtualTraffic {
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t weights_out = 0;  // of bytes_out
  std::uint64_t away_out = 0;     // of weights_out, to another room or region
  std::uint64_t messages = 0, lost = 0;
};

class VirtualNetwork {
 public:
  struct Route {
    std::uint32_t from = 0, to = 0;
  };
  enum class Lane : std::uint8_t { kSmall, kWeights };

  explicit VirtualNetwork(std::uint64_t seed) : rng_(seed) {}

  void add(const VirtualLine& line);       // of the next peer: 0, 1, 2
  void add_room(const VirtualRoom& room);  // the next one: 0, 1, 2

  // Until mended the first `peers` and the others cannot hear each other.
  void partition(std::uint32_t peers) { side_ = peers; }
  void mend() { side_ = 0; }

  // Nothing: it is lost.
  std::optional<Instant> send(Instant now, Route route, std::size_t bytes, Lane lane);
  // Sent again until it arrives, each time after a round trip more; nothing: a partition.
  std::optional<Instant> send_surely(Instant now, Route route, std::size_t bytes, Lane lane);

  // How long it takes `members` to have the sum of `bytes` that each of them has, from the moment
  // at which all are ready: by a ring (2 (n - 1) phases of an n-th of it) or by a binary tree (as
  // many phases of the whole as the tree is high, up and down), whichever is faster. Every phase is
  // as slow as its slowest pair; losses lengthen it by what is sent again. The ring goes from
  // room to room or region to region. Each member sends what it would in the ring. It neither waits
  // for the lines nor takes them. Nothing: a partition is in between.
  std::optional<Duration> sum_up(std::span<const std::uint32_t> members, std::size_t bytes);

  bool away(Route route) const {  // to another room or region
    const VirtualLine &from = line(route.from), &to = line(route.to);
    return from.region != to.region || from.room != to.room;
  }
  bool cut(Route route) const { return (route.from < side_) != (route.to < side_); }
  const VirtualLine& line(std::uint32_t peer) const { return ends_[peer].line; }
  Duration latency(Route route) const;
  double rate(Route route) const;  // bytes per second
  const VirtualTraffic& traffic(std::uint32_t peer) const { return ends_[peer].traffic; }
  std::uint32_t ends() const { return static_cast<std::uint32_t>(ends_.size()); }

 private:
  // What leaves after `now`: until then the lines serve others.
  std::optional<Instant> send_later(Instant now, Instant leaves, Route route, std::size_t bytes,
                                    Lane lane);
  struct End {
    VirtualLine line;
    LineTime upload, download;
    VirtualTraffic traffic;
  };
  struct Room {
    VirtualRoom line;
    LineTime upload, download;
  };
  Room* room_of(std::uint32_t peer);  // null: it is in none
  const Room* room_of(std::uint32_t peer) const;
  double phase_seconds(Route route, double bytes) const;

  Rng rng_;
  std::uint32_t side_ = 0;
  std::vector<End> ends_;
  std::vector<Room> rooms_;
};

}  // namespace starling::peer

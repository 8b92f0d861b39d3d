#include "peer/simulate/virtual_network.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace starling::peer {

namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;
constexpr RegionPair kWithin{10, 2};

// Rows: the first of the pair; columns: those behind it in kRegionNames.
constexpr std::array<RegionPair, 45> kPairs{{
    {67, 0.79},   {49, 1.10},   {96, 0.523},  {124, 0.46},  {163, 0.341}, {139, 0.36},
    {136, 0.42},  {143, 0.404}, {124, 0.482},  // Oregon
    {11, 1.12},   {143, 0.524}, {172, 0.500}, {230, 0.364}, {197, 0.383}, {76, 1.16},
    {90, 1.02},   {67, 1.05},  // Virginia
    {130, 0.694}, {159, 0.529}, {197, 0.452}, {185, 0.484}, {86, 1.05},   {99, 0.799},
    {77, 1.14},                                                                          // Ohio
    {34, 1.10},   {73, 1.01},   {100, 0.761}, {210, 0.366}, {223, 0.36},  {199, 0.465},  // Tokyo
    {74, 1.14},   {148, 0.58},  {238, 0.342}, {235, 0.358}, {228, 0.335},                // Seoul
    {92, 0.816},  {169, 0.500}, {155, 0.535}, {179, 0.492},  // Singapore
    {262, 0.326}, {265, 0.328}, {254, 0.344},                // Sydney
    {14, 1.14},   {12, 1.09},                                // London
    {24, 1.08},                                              // Frankfurt
}};

}  // namespace

RegionPair between_regions(std::size_t one, std::size_t other) {
  STARLING_ASSERT(one < kRegionNames.size());
  STARLING_ASSERT(other < kRegionNames.size());
  if (one == other) return kWithin;
  const std::size_t row = std::min(one, other);
  // So many pairs in the rows before it.
  const std::size_t before = row * (2 * kRegionNames.size() - row - 1) / 2;
  return kPairs[before + std::max(one, other) - row - 1];
}

void VirtualNetwork::add(const VirtualLine& line) {
  STARLING_ASSERT(!line.room || *line.room < rooms_.size());
  ends_.push_back({line, {}, {}, {}});
}

void VirtualNetwork::add_room(const VirtualRoom& room) { rooms_.push_back({room, {}, {}}); }

const VirtualNetwork::Room* VirtualNetwork::room_of(std::uint32_t peer) const {
  const auto& room = ends_[peer].line.room;
  return room ? &rooms_[*room] : nullptr;
}

VirtualNetwork::Room* VirtualNetwork::room_of(std::uint32_t peer) {
  const auto& room = ends_[peer].line.room;
  return room ? &rooms_[*room] : nullptr;
}

Duration VirtualNetwork::latency(Route route) const {
  const VirtualLine& from = ends_[route.from].line;
  const VirtualLine& to = ends_[route.to].line;
  if (!from.region || !to.region) {
    Duration latencies = from.latency + to.latency;
    for (const std::uint32_t peer : {route.from, route.to}) {
      const Room* room = room_of(peer);
      if (room != nullptr && away(route)) latencies += room->line.latency;
    }
    return latencies / 2;
  }
  return from_seconds(between_regions(*from.region, *to.region).delay_ms / 1000);
}

double VirtualNetwork::rate(Route route) const {
  const VirtualLine& from = ends_[route.from].line;
  const VirtualLine& to = ends_[route.to].line;
  double rate = std::min(from.upload, to.download);
  if (away(route)) {
    if (const Room* room = room_of(route.from)) rate = std::min(rate, room->line.upload);
    if (const Room* room = room_of(route.to)) rate = std::min(rate, room->line.download);
  }
  if (!from.region || !to.region) return rate;
  return std::min(rate, between_regions(*from.region, *to.region).gigabits * kBytesPerGigabit);
}

std::optional<Instant> VirtualNetwork::send(Instant now, Route route, std::size_t bytes,
                                            Lane lane) {
  return send_later(now, now, route, bytes, lane);
}

std::optional<Instant> VirtualNetwork::send_later(Instant now, Instant leaves, Route route,
                                                  std::size_t bytes, Lane lane) {
  STARLING_ASSERT(route.from < ends_.size());
  STARLING_ASSERT(route.to < ends_.size());
  End& from = ends_[route.from];
  End& to = ends_[route.to];
  const auto at_rate = [bytes](double rate) {
    return from_seconds(static_cast<double>(bytes) / rate);
  };
  const bool weights = lane == Lane::kWeights, goes_away = away(route);
  from.traffic.bytes_out += bytes;
  if (weights) from.traffic.weights_out += bytes;
  if (weights && goes_away) from.traffic.away_out += bytes;
  ++from.traffic.messages;
  // When it begins to pass the line last looked at, and when it has passed all of them.
  Instant begins = leaves, passed = leaves;
  const auto take = [&](LineTime& line, double line_rate) {
    if (!weights) return;
    const LineTime::Taken taken = line.take(now, begins, at_rate(line_rate));
    begins = taken.begin;
    passed = std::max(passed, taken.end);
  };
  take(from.upload, from.line.upload);
  if (Room* room = room_of(route.from); room != nullptr && goes_away) {
    take(room->upload, room->line.upload);
  }
  const double loss = (from.line.loss + to.line.loss) / 2;
  if (cut(route) || (loss > 0 && rng_.chance(loss))) {
    ++from.traffic.lost;
    return std::nullopt;
  }
  begins += latency(route);
  passed += latency(route);
  if (Room* room = room_of(route.to); room != nullptr && goes_away) {
    take(room->download, room->line.download);
  }
  take(to.download, to.line.download);
  to.traffic.bytes_in += bytes;
  return std::max(begins + at_rate(rate(route)), passed);
}

std::optional<Instant> VirtualNetwork::send_surely(Instant now, Route route, std::size_t bytes,
                                                   Lane lane) {
  Instant leaves = now;
  while (!cut(route)) {
    if (const auto arrives = send_later(now, leaves, route, bytes, lane)) return arrives;
    leaves += 2 * latency(route) + from_seconds(static_cast<double>(bytes) / rate(route));
  }
  return std::nullopt;
}

double VirtualNetwork::phase_seconds(Route route, double bytes) const {
  const double loss = (ends_[route.from].line.loss + ends_[route.to].line.loss) / 2;
  return (to_seconds(latency(route)) + bytes / rate(route)) / (1 - loss);
}

std::optional<Duration> VirtualNetwork::sum_up(std::span<const std::uint32_t> members,
                                               std::size_t bytes) {
  if (members.size() < 2) return Duration{};
  std::vector<std::uint32_t> ring(members.begin(), members.end());
  std::stable_sort(ring.begin(), ring.end(), [this](std::uint32_t left, std::uint32_t right) {
    const VirtualLine &one = line(left), &other = line(right);
    return std::pair(one.room, one.region) < std::pair(other.room, other.region);
  });
  const auto count = static_cast<double>(ring.size());
  const auto whole = static_cast<double>(bytes);
  double slowest_part = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const Route route{ring[i], ring[(i + 1) % ring.size()]};
    if (cut(route)) return std::nullopt;
    slowest_part = std::max(slowest_part, phase_seconds(route, whole / count));
  }
  double tree = 0;  // up; down takes as long
  for (std::size_t height = 1; height < ring.size(); height *= 2) {
    double slowest = 0;
    for (std::size_t i = height; i < ring.size(); i += 2 * height) {
      slowest = std::max(slowest, phase_seconds({ring[i], ring[i - height]}, whole));
    }
    tree += slowest;
  }
  const auto sent = static_cast<std::uint64_t>(2 * (count - 1) / count * whole);
  for (std::size_t i = 0; i < ring.size(); ++i) {
    VirtualTraffic& traffic = ends_[ring[i]].traffic;
    traffic.bytes_out += sent;
    traffic.weights_out += sent;
    if (away({ring[i], ring[(i + 1) % ring.size()]})) traffic.away_out += sent;
    traffic.bytes_in += sent;
    ++traffic.messages;
  }
  return from_seconds(std::min(2 * (count - 1) * slowest_part, 2 * tree));
}

}  // namespace starling::peer

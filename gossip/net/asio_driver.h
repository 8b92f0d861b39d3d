// AsioDriver: runs one Core over ZeroMQ in real time, on a Boost.Asio loop.
//
// Owns the core and the link. Every input, from the link, the timer or the caller, goes to the core
// together with the clock's reading; then all of the core's actions are carried out and the timer
// is set for its next deadline. Messages go to the link, orders about weights to the MixerPort in
// their order, facts to the EventSink.
//
// What cannot go out at once waits here and is tried again after 1 ms, then ever more rarely up to
// 32 ms: orders that the mixer is too full for, and payloads that the link is too busy for or that
// the upload limit holds back (payload_queues.h). The protocol makes up for a dropped one by its
// timeouts. Over the download limit, and while kOrdersWaitingMax orders wait for the mixer,
// payloads are left unread; small messages never wait.
//
// The time of day in a Pong is written here, and read here where clocks are compared. The core has
// no part in it.
//
// Thread: all calls, and MixerPort and EventSink, on the thread that runs the io_context. Neither
// of the two may call the driver back before it returns. Destroy the driver only when the
// io_context will not run again: cancelled handlers may still be queued in it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/slot_pool.h"
#include "gossip/clock_offsets.h"
#include "gossip/core.h"
#include "gossip/driver.h"
#include "gossip/net/link.h"
#include "gossip/net/real_clock.h"

namespace boost::asio {
class io_context;
}

namespace starling::gossip {

// Of all lanes together; 0: no limit.
struct DriverLimits {
  double upload_bytes_per_second = 0, download_bytes_per_second = 0;
  // In slots that wait for one peer to read, and for all.
  std::size_t deltas_of_peer_max = 64, deltas_max = SIZE_MAX;
  std::size_t pieces_of_peer_max = SIZE_MAX;
};

struct DriverStats {
  std::uint64_t frames_waiting = 0;  // payloads in the queues now
  std::uint64_t frames_dropped = 0;  // payloads given up: too many, too old, or no such peer
  std::uint64_t orders_waiting = 0;  // orders that the mixer has not taken yet
};

class AsioDriver {
 public:
  using Clock = std::function<Instant()>;
  using TimeOfDay = std::function<std::uint64_t()>;

  // A stripe may be pushed again and again, each time with a payload that waits here with its
  // order.
  static constexpr std::size_t kOrdersWaitingMax = 64;

  // `core` was made with a reading of the same clock. Starts at once to listen to the link.
  AsioDriver(boost::asio::io_context& io, Core core, ZmqLink link, MixerPort& mixer,
             EventSink& events, const DriverLimits& limits = {}, Clock clock = steady_now,
             TimeOfDay time_of_day = time_of_day_now);
  ~AsioDriver();
  AsioDriver(AsioDriver&&) noexcept;

  // --- inputs: see Core ---
  void join(std::span<const PeerAddress> seeds);
  void publish(FragmentId fragment, const FragmentState& state);
  void fragment_state(FragmentId fragment, const FragmentState& state);
  void progress(std::uint64_t tokens, float tokens_per_second);
  void standing(const Standing& standing);
  void part_finished(std::uint16_t part, std::uint16_t times);
  void parts_held(std::span<const std::uint16_t> parts);
  void sick();  // this peer's weights are unusable
  // The mixer's answers. A slot comes exactly with a verdict that says "done": payload_bytes lie
  // behind kBulkHeadBytes in it, the head's room is free to be written, and the driver owns it.
  void encoded(const StripeRef& ref, std::optional<SlotLease> slot, std::size_t payload_bytes,
               const Verdict& verdict);
  void staged(const StripeRef& ref, std::optional<SlotLease> slot, std::size_t payload_bytes,
              const Verdict& verdict);
  void applied(const StripeRef& ref, const Verdict& verdict);
  void compensated(const StripeRef& ref);
  // Before join(): where states are kept. Without it no newcomer is served and nothing fetched.
  void keep_states(StatePort& states);
  void state(const StateInput& input, std::optional<SlotLease> slot, std::size_t payload_bytes);
  void allow(AllowList allow);  // from now on; whoever is not on it is disconnected
  void close();                 // no new exchanges
  void allow_exchanges(bool allowed);
  void pace_exchanges(bool paced);  // true: none for now, and no newcomers
  void wish_format(std::uint8_t format);
  void leave();  // tell everybody; what is said gets out before the destructor ends
  void compare_clocks(std::span<const PeerId> peers);  // from now on

  // --- observers ---
  const Core& core() const;
  std::vector<PartView> parts() const { return core().parts(); }
  const PeerAddress& local_address() const;
  const LinkStats& link_stats() const;
  PeerTraffic traffic_with(PeerId peer) const;
  bool was_reached_by(PeerId peer) const;  // see ZmqLink
  std::optional<ClockOffset> clock_of(PeerId peer) const;
  DriverStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::gossip

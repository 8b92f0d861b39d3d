// AsioDriver's face: each call is one input of the core, or a look at what there is.
#include <utility>

#include "gossip/net/asio_driver_impl.h"

namespace starling::gossip {

AsioDriver::AsioDriver(boost::asio::io_context& io, Core core, ZmqLink link, MixerPort& mixer,
                       EventSink& events, const DriverLimits& limits, Clock clock,
                       TimeOfDay time_of_day)
    : impl_(std::make_unique<Impl>(io, std::move(core), std::move(link), mixer, events, limits,
                                   std::move(clock), std::move(time_of_day))) {}
AsioDriver::~AsioDriver() = default;
AsioDriver::AsioDriver(AsioDriver&&) noexcept = default;

void AsioDriver::join(std::span<const PeerAddress> seeds) {
  impl_->feed([&](Instant now) { impl_->core.on_join(now, seeds); });
}

void AsioDriver::publish(FragmentId fragment, const FragmentState& state) {
  impl_->feed([&](Instant now) { impl_->core.on_published(now, fragment, state); });
}

void AsioDriver::fragment_state(FragmentId fragment, const FragmentState& state) {
  impl_->feed([&](Instant now) { impl_->core.on_fragment_state(now, fragment, state); });
}

void AsioDriver::progress(std::uint64_t tokens, float tokens_per_second) {
  impl_->feed([&](Instant now) { impl_->core.on_progress(now, tokens, tokens_per_second); });
}

void AsioDriver::standing(const Standing& standing) {
  impl_->feed([&](Instant now) { impl_->core.on_standing(now, standing); });
}

void AsioDriver::part_finished(std::uint16_t part, std::uint16_t times) {
  impl_->feed([&](Instant now) { impl_->core.on_part_finished(now, part, times); });
}

void AsioDriver::parts_held(std::span<const std::uint16_t> parts) {
  impl_->feed([&](Instant now) { impl_->core.on_parts_held(now, parts); });
}

void AsioDriver::sick() {
  impl_->feed([&](Instant now) { impl_->core.on_sick(now); });
}

void AsioDriver::encoded(const StripeRef& ref, std::optional<SlotLease> slot,
                         std::size_t payload_bytes, const Verdict& verdict) {
  STARLING_ASSERT(slot.has_value() == verdict.done());
  impl_->payload_made(std::move(slot), payload_bytes);
  impl_->feed([&](Instant now) { impl_->core.on_encoded(now, ref, verdict, payload_bytes); });
}

void AsioDriver::staged(const StripeRef& ref, std::optional<SlotLease> slot,
                        std::size_t payload_bytes, const Verdict& verdict) {
  STARLING_ASSERT(slot.has_value() == verdict.done());
  impl_->payload_made(std::move(slot), payload_bytes);
  impl_->feed([&](Instant now) { impl_->core.on_staged(now, ref, verdict, payload_bytes); });
}

void AsioDriver::applied(const StripeRef& ref, const Verdict& verdict) {
  impl_->feed([&](Instant now) { impl_->core.on_applied(now, ref, verdict); });
}

void AsioDriver::compensated(const StripeRef& ref) {
  impl_->feed([&](Instant now) { impl_->core.on_compensated(now, ref); });
}

void AsioDriver::keep_states(StatePort& states) { impl_->states = &states; }

void AsioDriver::state(const StateInput& input, std::optional<SlotLease> slot, std::size_t bytes) {
  impl_->payload_made(std::move(slot), bytes);
  impl_->feed([&](Instant now) { impl_->core.on_state(now, input); });
}

void AsioDriver::allow(AllowList allow) {
  const auto members = allow.ids();
  impl_->link.set_allow_list(std::move(allow));  // tells whoever is not on it, before we hang up
  impl_->feed([&](Instant now) { impl_->core.on_members(now, members); });
  impl_->tell_core();
}

void AsioDriver::close() {
  impl_->feed([&](Instant now) { impl_->core.on_close(now); });
}

void AsioDriver::allow_exchanges(bool allowed) {
  impl_->feed([&](Instant now) { impl_->core.on_exchanges_allowed(now, allowed); });
}

void AsioDriver::pace_exchanges(bool paced) {
  impl_->feed([&](Instant now) { impl_->core.on_paced(now, paced); });
}

void AsioDriver::wish_format(std::uint8_t format) {
  impl_->feed([&](Instant now) { impl_->core.on_format(now, format); });
}

void AsioDriver::leave() {
  impl_->feed([&](Instant now) { impl_->core.on_leave(now); });
}

void AsioDriver::compare_clocks(std::span<const PeerId> peers) { impl_->clocks.watch(peers); }

const Core& AsioDriver::core() const { return impl_->core; }
const PeerAddress& AsioDriver::local_address() const { return impl_->link.local_address(); }
const LinkStats& AsioDriver::link_stats() const { return impl_->link.stats(); }
PeerTraffic AsioDriver::traffic_with(PeerId peer) const { return impl_->link.traffic_with(peer); }
bool AsioDriver::was_reached_by(PeerId peer) const { return impl_->link.was_reached_by(peer); }
std::optional<ClockOffset> AsioDriver::clock_of(PeerId peer) const {
  return impl_->clocks.of(peer);
}

DriverStats AsioDriver::stats() const {
  return {.frames_waiting = impl_->payloads.frames(),
          .frames_dropped = impl_->payloads.dropped(),
          .orders_waiting = impl_->orders.size()};
}

}  // namespace starling::gossip

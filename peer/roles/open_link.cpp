#include "peer/roles/open_link.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "peer/config/addresses.h"
#include "peer/config/config_ranges.h"
#include "peer/files/key_files.h"
#include "peer/machine/descriptors.h"

namespace starling::peer {

Status set_listen(const GossipSettings& settings, gossip::LinkConfig& link) {
  link.host.clear();
  if (settings.listen.empty()) return ok_status();
  auto listen = parse_address(settings.listen, settings.bulk_port);
  if (!listen.ok()) return std::move(listen).error().with_context("gossip.listen");
  link.host = gossip::host(listen.value());
  link.control_port = listen.value().control_port;
  link.bulk_port = listen.value().bulk_port;
  return ok_status();
}

double relay_mbit(const PeerConfig& config) {
  const double most = config.bandwidth.upload_mbit / 2, wanted = config.relay.mbit;
  if (most == 0) return wanted;
  return wanted == 0 ? most : std::min(wanted, most);
}

Result<gossip::ZmqLink> open_link(const PeerConfig& config, const gossip::Identity& identity,
                                  const gossip::RunIdentity& run, std::uint64_t process) {
  gossip::LinkConfig link{.identity = identity,
                          .run = run,
                          .host = {},
                          .allow = {},
                          .secret = {},
                          .process = process,
                          .relay_bytes_per_second = relay_mbit(config) * kBytesPerMbit};
  if (Status listen = set_listen(config.gossip, link); !listen.ok()) {
    return std::move(listen).error();
  }
  if (!link.host.empty()) link.callers_max = callers_max(config.gossip);
  if (!config.trust.allow.empty()) {
    auto allow = load_allow_list(config.trust.allow);
    if (!allow.ok()) return std::move(allow).error().with_context("trust.allow");
    if (allow.value().size() == 0) {
      log_warning(
          "trust.allow: there is no key in {}: nobody may exchange with this peer until "
          "somebody writes theirs there",
          config.trust.allow);
    }
    link.allow = std::move(allow).value();
  }
  if (!config.trust.secret.empty()) {
    auto secret = load_secret(config.trust.secret);
    if (!secret.ok()) return std::move(secret).error().with_context("trust.secret");
    link.secret = std::move(secret).value();
  }
  return gossip::ZmqLink::open(link);
}

Result<gossip::PeerAddress> advertised_address(const GossipSettings& settings,
                                               const gossip::PeerAddress& local) {
  if (settings.advertise.empty()) return local;
  auto parsed = parse_address(settings.advertise, local.bulk_port);
  if (!parsed.ok()) return std::move(parsed).error().with_context("gossip.advertise");
  gossip::PeerAddress address = parsed.value();
  address.key = local.key;
  return address;
}

void say_how_to_join(const gossip::PeerAddress& address) {
  if (gossip::listens(address)) {
    log_info("others can join through this peer with seeds = [\"{}\"]", to_seed(address));
    return;
  }
  log_info("this peer, {}, calls others and cannot be called: gossip.listen is empty",
           gossip::to_string(address.key));
}

}  // namespace starling::peer

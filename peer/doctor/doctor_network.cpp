#include "peer/doctor/doctor_network.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/host.h"
#include "gossip/net/link_rate.h"
#include "peer/config/addresses.h"
#include "peer/io/human_text.h"
#include "peer/roles/open_link.h"
#include "peer/status/status_server.h"

namespace starling::peer {

namespace {

constexpr const char* kPage = "status page";

struct Listening {
  Finding finding;
  gossip::PeerAddress local;  // with the ports that were given
};

Listening check_listen(const GossipSettings& settings, std::string_view process) {
  // Of nobody: the port is all that matters.
  gossip::LinkConfig link{
      .identity = gossip::Identity::draw(), .run = {}, .host = {}, .allow = {}, .secret = {}};
  Status set = set_listen(settings, link);
  if (!set.ok()) return {failed("listen", set.error().message(), "gossip.listen"), {}};
  auto opened = gossip::ZmqLink::open(link);
  if (!opened.ok() && !process.empty()) {
    return {good("listen", fmt::format("{}: this peer runs as process {} and listens there",
                                       settings.listen, process)),
            {}};
  }
  if (!opened.ok()) {
    return {failed("listen", opened.error().message(),
                   "gossip.listen: an address of this machine ('ip addr' tells which; 0.0.0.0 are "
                   "all) and "
                   "a port that is free ('ss -ltnp' tells what listens), and so the next one, or "
                   "gossip.bulk_port"),
            {}};
  }
  const gossip::PeerAddress& local = opened.value().local_address();
  return {good("listen", fmt::format("{}, and port {} for payloads: free", gossip::to_string(local),
                                     local.bulk_port)),
          local};
}

Finding check_status(const StatusSettings& settings, std::string_view process) {
  auto address = parse_status_listen(settings.listen);
  if (!address.ok()) return failed(kPage, address.error().message(), "status.listen");
  auto server = StatusServer::open(
      {.host = std::string(gossip::host(address.value())), .port = address.value().control_port});
  if (server.ok()) return judge_page(address.value(), server.value()->url() + ": free");
  if (server.error().code() == ErrorCode::kInvalidConfig) {  // where a peer ends, too
    return failed(kPage, server.error().message(),
                  "status.listen, with an address of this machine, or \"\" for none");
  }
  if (!process.empty()) {
    return judge_page(address.value(), fmt::format("{}: this peer runs as process {} and serves it",
                                                   settings.listen, process));
  }
  return doubtful(kPage, fmt::format("{}: {}", settings.listen, server.error().message()),
                  "status.listen, where the port is free, or \"\" for none; a peer trains without");
}

}  // namespace

Finding check_encryption() {
  constexpr Duration kEach = std::chrono::milliseconds(800);
  constexpr const char* kCheck = "encryption";
  const auto clear = gossip::loopback_rate(gossip::Cipher::kNone, kEach);
  const auto curve = gossip::loopback_rate(gossip::Cipher::kCurve, kEach);
  if (!clear.ok() || !curve.ok()) {
    return doubtful(kCheck, (clear.ok() ? curve : clear).error().message(),
                    "allow TCP on 127.0.0.1, which a status page needs as well");
  }
  const auto rate = [](Result<double> measured) { return human_bytes(measured.value()); };
  return good(kCheck, fmt::format("{}/s to itself in the clear, {}/s encrypted: a link is always "
                                  "encrypted and carries no more",
                                  rate(clear), rate(curve)));
}

Finding check_congestion_control() {
  return judge_congestion_control(gossip::congestion_control());
}

Finding judge_congestion_control(const std::optional<gossip::CongestionControl>& control) {
  constexpr const char* kCheck = "lossy lines";
  if (!control) return good(kCheck, "this system does not tell its TCP's congestion control");
  if (control->endurance != gossip::Endurance::kNone) {
    const char* const then = control->endurance == gossip::Endurance::kGiven
                                 ? ", and bbr for payloads where that slows down for losses"
                                 : "";
    return good(kCheck, "TCP has " + control->usual + then);
  }
  return doubtful(
      kCheck,
      fmt::format("TCP has {}, and bbr is not to be had: 1 packet in 1000 lost on a line of 100 "
                  "ms leaves some 7 Mbit/s of any line",
                  control->usual),
      "as root, 'modprobe tcp_bbr' and 'sysctl -w "
      "net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"'; to last, in "
      "/etc/modules-load.d and /etc/sysctl.d");
}

Finding judge_address(const gossip::PeerAddress& advertised,
                      std::span<const gossip::PeerAddress> seeds) {
  constexpr const char* kCheck = "advertised";
  if (!gossip::listens(advertised)) {
    return good(kCheck,
                "nothing (gossip.listen is empty): this peer calls others, nobody calls it");
  }
  const Reach ours = reach_of(gossip::host(advertised));
  const auto is_farther = [ours](const gossip::PeerAddress& seed) {
    const Reach theirs = reach_of(gossip::host(seed));
    return theirs != Reach::kUnknown && theirs > ours;
  };
  const bool too_near =
      ours != Reach::kUnknown && std::any_of(seeds.begin(), seeds.end(), is_farther);
  constexpr std::array<const char*, 5> kMeaning{
      "nobody can call it", "peers on this machine can call it",
      "peers of the same network can call it", "anybody can call it, if no firewall objects",
      "whoever resolves that name may call it"};
  const std::string text = fmt::format("{}: {}", gossip::to_string(advertised),
                                       kMeaning[static_cast<std::size_t>(ours)]);
  if (!too_near) return good(kCheck, text);
  return doubtful(
      kCheck, text + ", and a seed is farther away",
      ours == Reach::kThisMachine
          ? "gossip.listen = \"0.0.0.0:7700\" and gossip.advertise = \"HOST:7700\", as "
            "others can call this machine; or gossip.listen = \"\" to call only"
          : "gossip.advertise = \"HOST:PORT\" that leads here from outside (forward both "
            "ports at the router); or gossip.listen = \"\" to call only");
}

Finding judge_page(const gossip::PeerAddress& page, const std::string& text) {
  if (reach_of(gossip::host(page)) == Reach::kThisMachine) return good(kPage, text);
  return doubtful(
      kPage, text + "; whoever can connect to it can read there how this run goes",
      fmt::format(
          "status.listen = \"127.0.0.1:{}\" for this machine alone, or a firewall that lets "
          "in only whom it is for",
          page.control_port));
}

std::optional<Finding> judge_seeds(std::span<const gossip::PeerAddress> seeds,
                                   const gossip::PublicKey* own) {
  constexpr const char* kCheck = "seeds";
  if (seeds.empty()) return good(kCheck, "none in gossip.seeds: this peer waits to be called");
  const auto is_own = [own](const gossip::PeerAddress& seed) {
    return own != nullptr && seed.key == *own;
  };
  if (!std::all_of(seeds.begin(), seeds.end(), is_own)) return std::nullopt;
  return doubtful(kCheck,
                  "gossip.seeds names nobody but this peer itself, which is passed over: it calls "
                  "nobody, and waits to be called",
                  "name another peer there, unless this is the one that the others call; if that "
                  "is another machine, one of the two needs a key of its own ('starling keygen "
                  "FILE', trust.key)");
}

namespace {

// Here, where it is at home: whoever is to call needs it too.
Finding check_advertised(const gossip::PeerAddress& advertised,
                         std::span<const gossip::PeerAddress> seeds) {
  const std::string host(gossip::host(advertised));
  addrinfo* found = nullptr;
  const int failure =
      is_ip_literal(host) ? 0 : ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (found != nullptr) ::freeaddrinfo(found);
  if (failure == 0) return judge_address(advertised, seeds);
  return doubtful("advertised",
                  fmt::format("{}: the name does not resolve here: {}",
                              gossip::to_string(advertised), ::gai_strerror(failure)),
                  "gossip.advertise: a name or an address by which others find this machine, or "
                  "gossip.listen = \"\" to call only");
}

}  // namespace

std::vector<Finding> check_addresses(const PeerConfig& config,
                                     std::span<const gossip::PeerAddress> seeds,
                                     std::string_view process) {
  std::vector<Finding> findings;
  if (config.gossip.listen.empty()) {
    findings.push_back(judge_address({}, seeds));
  } else {
    Listening listening = check_listen(config.gossip, process);
    const bool free = listening.local.control_port != 0;
    findings.push_back(std::move(listening.finding));
    auto advertised = advertised_address(config.gossip, listening.local);
    if (free && advertised.ok()) findings.push_back(check_advertised(advertised.value(), seeds));
  }
  if (!config.status.listen.empty()) findings.push_back(check_status(config.status, process));
  return findings;
}

}  // namespace starling::peer

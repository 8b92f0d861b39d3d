#include "peer/doctor/doctor_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <cmath>
#include <utility>

#include "gossip/net/link.h"
#include "peer/io/clock.h"
#include "peer/io/human_text.h"
#include "peer/roles/refusals.h"

namespace starling::peer {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kConnectMax = std::chrono::seconds(3);
constexpr std::size_t kAddressesShown = 3;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

asio::awaitable<void> dial_one(gossip::PeerAddress seed, Dialled& dialled) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  error_code error;
  const auto found = co_await resolver.async_resolve(
      std::string(gossip::host(seed)), std::to_string(seed.control_port), into(error));
  dialled.problem = error ? error.message() : std::string();
  if (error) co_return;
  for (const auto& entry : found) {
    if (dialled.addresses.size() == kAddressesShown) break;
    dialled.addresses.push_back(entry.endpoint().address().to_string());
  }
  const Instant start = now();
  boost::beast::tcp_stream stream(executor);
  stream.expires_after(kConnectMax);
  co_await stream.async_connect(found, into(error));
  dialled.took = now() - start;
  if (error == boost::beast::error::timeout) {
    dialled.problem = fmt::format("no answer within {} s", kConnectMax.count());
  } else if (error) {
    dialled.problem = error.message();
  }
}

std::string milliseconds(Duration time) { return fmt::format("{:.1f} ms", 1e3 * to_seconds(time)); }

Finding judge_dialled(const gossip::PeerAddress& seed, const Dialled& dialled) {
  if (dialled.addresses.empty()) {
    return failed("name",
                  fmt::format("{} does not resolve: {}", gossip::host(seed), dialled.problem),
                  "gossip.seeds: a name that resolves here, or an address; or this machine's DNS");
  }
  const std::string where =
      fmt::format("{} ({})", gossip::to_string(seed), fmt::join(dialled.addresses, ", "));
  if (dialled.problem.empty()) {
    return good("connect", fmt::format("{} answers after {}", where, milliseconds(dialled.took)));
  }
  return doubtful(
      "connect",
      fmt::format("{}: {}; a run would train alone, and go on dialling", where, dialled.problem),
      fmt::format("start that peer, if it is not to come later, with gossip.listen "
                  "taking calls from here, open TCP ports {} and {} on its side, or "
                  "correct the port in gossip.seeds",
                  seed.control_port, seed.bulk_port));
}

// What both sides say of themselves, where that differs.
std::string difference(const gossip::Refused& refused) {
  const auto& [address, reason, ours, theirs, by_us] = refused;
  switch (reason) {
    case gossip::RefuseReason::kProtocol:
      return fmt::format(" (ours: versions {} to {}, theirs: {} to {})", ours.versions.min,
                         ours.versions.max, theirs.versions.min, theirs.versions.max);
    case gossip::RefuseReason::kRun:
      return fmt::format(" (ours: {:016x}, theirs: {:016x})", ours.run, theirs.run);
    case gossip::RefuseReason::kModel:
      return fmt::format(" (ours: {:016x}, theirs: {:016x})", ours.model, theirs.model);
    case gossip::RefuseReason::kLayout:
      return fmt::format(" (ours: {:016x}, theirs: {:016x})", ours.layout, theirs.layout);
    default: return {};
  }
}

// What a refusal's remedy is about, as it is set here.
std::string setting_here(const gossip::Refused& refused, const PeerConfig& config) {
  switch (refused.reason) {
    case gossip::RefuseReason::kRun:
      return fmt::format(" (here \"{}\", {} and \"{}\")", config.run.name, config.run.seed,
                         config.run.start);
    case gossip::RefuseReason::kLayout:
      return fmt::format(" (here {})", config.outer.rounds.fragments);
    case gossip::RefuseReason::kNotAllowed:
      return refused.by_us ? fmt::format(" (here {})", config.trust.allow) : "";
    default: return {};
  }
}

// Of a seed that knows this peer, and dials it, the port that is dialled may be another's.
bool is_other_port(const gossip::PeerAddress& seed, const gossip::PeerAddress& advertised) {
  return gossip::host(seed) == gossip::host(advertised) &&
         seed.control_port != advertised.control_port;
}

Finding judge_greeting(const SeedFacts& facts, const PeerConfig& config) {
  const SeedVisit& visit = *facts.visit;
  if (visit.welcomed && is_other_port(facts.address, visit.advertised)) {
    return doubtful("greeting",
                    fmt::format("welcome, but that peer says that it takes calls at port {}: "
                                "maybe it called, and nothing that it has answers here",
                                visit.advertised.control_port),
                    fmt::format("gossip.seeds: {}, unless port {} is forwarded to it",
                                gossip::to_string(visit.advertised), facts.address.control_port));
  }
  if (visit.welcomed) {
    return good("greeting",
                "welcome: its key, protocol, run, model and layout are as they must be");
  }
  if (visit.refused) {
    return failed("greeting",
                  fmt::format("{}: {}{}", visit.refused->by_us ? "refused by us" : "refused",
                              gossip::to_string(visit.refused->reason), difference(*visit.refused)),
                  fmt::format("{}{}", remedy_of(visit.refused->reason, visit.refused->by_us),
                              setting_here(*visit.refused, config)));
  }
  return failed(
      "greeting",
      fmt::format("somebody takes calls there, but no peer of this key answers within {} s",
                  std::chrono::duration_cast<std::chrono::seconds>(kGreetingMax).count()),
      "gossip.seeds: the line that that peer logs at its start (\"others can join ...\"); "
      "or it is stopped, or another program has its port");
}

// Kept clocks agree to well below a second; one that nobody keeps is off by so much after a day or
// two. Up to here a person who reads the logs of both machines still sees cause before effect.
constexpr Duration kClocksApartMax = std::chrono::seconds(2);

Finding judge_clocks(const SeedVisit& visit) {
  if (!visit.clock) {
    const bool answered = visit.round_trip > Duration::zero();
    return good("clock", answered ? "not compared: its starling is older, and tells no time"
                                  : "not compared: no ping was answered");
  }
  const auto [ahead, within] = *visit.clock;
  const double seconds = std::abs(to_seconds(ahead));
  const auto bound = std::chrono::ceil<std::chrono::milliseconds>(within);
  const std::string text =
      fmt::format("{:.3f} s {} this machine's, within {:.3f} s", seconds,
                  ahead < Duration::zero() ? "behind" : "ahead of", to_seconds(bound));
  if (seconds - to_seconds(within) <= to_seconds(kClocksApartMax)) return good("clock", text);
  return doubtful("clock",
                  text +
                      "; training does not mind, but 'starling replay' of both machines' logs "
                      "takes effects for causes, and quiet hours and daily limits go by it",
                  "timedatectl set-ntp true, or start chronyd or ntpd, on the machine whose clock "
                  "is wrong: 'clock' above tells of this one's");
}

Finding judge_call_back(const SeedFacts& facts) {
  const gossip::PeerAddress& ours = facts.advertised;
  if (!gossip::listens(ours)) {
    return good("way back", "over our connections: gossip.listen is empty");
  }
  if (facts.visit->calls_back) {
    return good("way back", fmt::format("it has called this peer at {}", gossip::to_string(ours)));
  }
  return doubtful(
      "way back",
      fmt::format(
          "it has not called this peer at {}, so a run would use our connections alone; it "
          "tries once in {} s, so if you have just asked, ask again in a minute",
          gossip::to_string(ours),
          std::chrono::duration_cast<std::chrono::seconds>(gossip::ZmqLink::kTestEvery).count()),
      fmt::format("open TCP ports {} and {} here and at the router, set gossip.advertise to an "
                  "address that leads here, or gossip.listen = \"\" if nobody is to call",
                  ours.control_port, ours.bulk_port));
}

// Less than this says more of delays than of the line.
constexpr std::uint64_t kTellingBytes = std::uint64_t{1} << 20;

Finding judge_fetched(const SeedVisit& visit) {
  const auto& [bytes, took] = visit.fetched;
  if (bytes >= kTellingBytes && took > Duration::zero()) {
    const double rate = static_cast<double>(bytes) / to_seconds(took);
    return with_figure(
        good("rate",
             fmt::format("{} of its state in {:.1f} s, encrypted: {}/s ({:.0f} Mbit/s)",
                         human_bytes(bytes), to_seconds(took), human_bytes(rate), 8e-6 * rate)),
        "fetched_bytes_per_second", rate);
  }
  if (bytes > 0) return good("rate", "not measured: its state is too small to tell");
  if (visit.declined) {
    return good("rate", fmt::format("not measured: it gives no state now ({})",
                                    gossip::to_string(*visit.declined)));
  }
  return good("rate", "not measured: nobody has a state to give, or fetching is not allowed now");
}

}  // namespace

std::vector<Dialled> dial(std::span<const gossip::PeerAddress> seeds) {
  std::vector<Dialled> dialled(seeds.size());
  asio::io_context io{1};
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    asio::co_spawn(io, dial_one(seeds[i], dialled[i]), asio::detached);
  }
  io.run();
  return dialled;
}

std::vector<Finding> judge_seed(const SeedFacts& facts, const PeerConfig& config) {
  std::vector<Finding> findings{judge_dialled(facts.address, facts.dialled)};
  if (!facts.visit) return findings;
  const SeedVisit& visit = *facts.visit;
  findings.push_back(judge_greeting(facts, config));
  if (!visit.welcomed) return findings;
  if (visit.round_trip > Duration::zero()) {
    findings.push_back(with_figure(good("round trip", milliseconds(visit.round_trip)),
                                   "round_trip_ms", 1000 * to_seconds(visit.round_trip)));
  } else {
    findings.push_back(doubtful("round trip", "no ping was answered",
                                "look whether that machine is overloaded, and ask again"));
  }
  findings.push_back(judge_clocks(visit));
  findings.push_back(judge_call_back(facts));
  findings.push_back(judge_fetched(visit));
  return findings;
}

std::vector<FindingGroup> check_seeds(const VisitPlan& plan, const Hindrance& hindrance) {
  std::vector<gossip::PeerAddress> seeds, answering;
  for (const gossip::PeerAddress& seed : plan.seeds) {
    if (seed.key != plan.identity.key()) seeds.push_back(seed);
  }
  const std::vector<Dialled> dialled = dial(seeds);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (dialled[i].problem.empty()) answering.push_back(seeds[i]);
  }
  VisitOutcome outcome;
  Hindrance met = hindrance;
  if (met.reason.empty() && !answering.empty()) {
    VisitPlan visit = plan;
    visit.seeds = answering;
    auto visited = visit_seeds(visit);
    if (visited.ok()) outcome = std::move(visited).value();
    if (!visited.ok()) met.reason = visited.error().message();
  }
  std::vector<FindingGroup> groups;
  for (std::size_t i = 0, visited = 0; i < seeds.size(); ++i) {
    SeedFacts facts{seeds[i], dialled[i], std::nullopt, outcome.advertised};
    const bool answers = dialled[i].problem.empty();
    if (answers && met.reason.empty()) facts.visit = outcome.seeds[visited++];
    FindingGroup group{"seed " + gossip::to_string(seeds[i].key).substr(0, 12) + " at " +
                       gossip::to_string(seeds[i])};
    group.findings = judge_seed(facts, plan.config);
    if (answers && !met.reason.empty()) {
      group.findings.push_back(doubtful("greeting", "not greeted: " + met.reason, met.remedy));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace starling::peer

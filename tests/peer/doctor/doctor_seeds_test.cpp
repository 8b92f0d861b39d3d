#include "peer/doctor/doctor_seeds.h"

#include <doctest/doctest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "gossip/net/identity.h"
#include "model/param_layout.h"
#include "peer/config/addresses.h"

namespace starling::peer {

namespace {

using gossip::RefuseReason;

gossip::PeerAddress at(const std::string& text) { return parse_address(text, 0).value(); }

SeedFacts reached_seed() {
  return {.address = at("seed.example.org:7700"),
          .dialled = {.addresses = {"203.0.113.7"},
                      .problem = {},
                      .took = std::chrono::milliseconds(12)},
          .visit = SeedVisit{.welcomed = true,
                             .refused = {},
                             .round_trip = std::chrono::milliseconds(25),
                             .clock = gossip::ClockOffset{std::chrono::milliseconds(12),
                                                          std::chrono::microseconds(3100)},
                             .calls_back = true},
          .advertised = at("198.51.100.1:7700")};
}

bool says(const Finding& finding, std::string_view what) {
  return (finding.text + finding.remedy).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a seed that answers, welcomes and calls back is well, with its figures") {
  const auto findings = judge_seed(reached_seed(), {});
  REQUIRE(findings.size() == 6);
  for (const Finding& finding : findings) CHECK(finding.verdict == Verdict::kOk);
  CHECK(says(findings[0], "seed.example.org:7700 (203.0.113.7) answers after 12.0 ms"));
  CHECK(says(findings[2], "25.0 ms"));
  CHECK(says(findings[4], "198.51.100.1:7700"));
}

TEST_CASE("the rate of a seed is told where enough has come to tell it") {
  SeedFacts facts = reached_seed();
  facts.visit->fetched = {.bytes = std::uint64_t{10} << 20, .took = std::chrono::seconds(2)};
  CHECK(says(judge_seed(facts, {})[5], "5.00 MiB/s (42 Mbit/s)"));
  facts.visit->fetched.bytes = 1000;
  CHECK(says(judge_seed(facts, {})[5], "too small"));
  facts.visit->fetched = {};
  CHECK(says(judge_seed(facts, {})[5], "nobody has a state"));
  facts.visit->declined = gossip::StateReason::kBusy;
  CHECK(says(judge_seed(facts, {})[5], std::string(gossip::to_string(gossip::StateReason::kBusy))));
}

TEST_CASE("how far the clocks are apart is told, and is worth a warning where it is sure") {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const auto clock = [](std::optional<gossip::ClockOffset> offset) {
    SeedFacts facts = reached_seed();
    facts.visit->clock = offset;
    return judge_seed(facts, {})[3];
  };
  const auto verdict = [&](Duration ahead, Duration within) {
    return clock(gossip::ClockOffset{ahead, within}).verdict;
  };
  CHECK(says(judge_seed(reached_seed(), {})[3], "0.012 s ahead of this machine's, within 0.004 s"));
  const Finding hours_apart = clock(gossip::ClockOffset{hours(-1), milliseconds(5)});
  CHECK(says(hours_apart, "3600.000 s behind this machine's, within 0.005 s"));
  CHECK(hours_apart.verdict == Verdict::kWarning);
  CHECK(says(hours_apart, "timedatectl set-ntp true"));
  CHECK(verdict(milliseconds(2500), milliseconds(10)) == Verdict::kWarning);
  CHECK(verdict(milliseconds(-2500), milliseconds(10)) == Verdict::kWarning);
  CHECK(verdict(milliseconds(1900), milliseconds(10)) == Verdict::kOk);
  CHECK(verdict(milliseconds(2500), milliseconds(600)) == Verdict::kOk);  // it may be less
  CHECK(verdict(Duration::min(), seconds(1)) == Verdict::kWarning);
  CHECK(says(clock({}), "its starling is older"));
  CHECK(clock({}).verdict == Verdict::kOk);
}

TEST_CASE("a seed that cannot be connected to is told apart from a name that does not resolve") {
  SeedFacts facts = reached_seed();
  facts.visit.reset();
  facts.dialled.problem = "Connection refused";
  const Finding closed = judge_seed(facts, {}).front();
  CHECK(closed.verdict == Verdict::kWarning);
  CHECK(says(closed, "Connection refused"));
  CHECK(says(closed, "7700 and 7701"));
  facts.dialled = {.addresses = {}, .problem = "Host not found"};
  const auto unknown = judge_seed(facts, {});
  REQUIRE(unknown.size() == 1);
  CHECK(says(unknown[0], "does not resolve"));
}

TEST_CASE("silence, and a way that leads in one direction, are told with what to do") {
  SeedFacts facts = reached_seed();
  facts.visit->calls_back = false;
  const auto one_way = judge_seed(facts, {});
  CHECK(one_way[4].verdict == Verdict::kWarning);
  CHECK(says(one_way[4], "gossip.advertise"));
  facts.advertised = {};
  CHECK(judge_seed(facts, {})[4].verdict == Verdict::kOk);
  facts.visit = SeedVisit{};
  const auto silent = judge_seed(facts, {});
  REQUIRE(silent.size() == 2);
  CHECK(silent[1].verdict == Verdict::kFailed);
  CHECK(says(silent[1], "no peer of this key answers"));
}

TEST_CASE("a seed that is known only because it called is not well where another port is dialled") {
  SeedFacts facts = reached_seed();
  facts.visit->advertised = at("seed.example.org:7700");
  CHECK(judge_seed(facts, {})[1].verdict == Verdict::kOk);
  facts.visit->advertised = at("203.0.113.7:7701");  // another name: behind a router, maybe
  CHECK(judge_seed(facts, {})[1].verdict == Verdict::kOk);
  facts.visit->advertised = at("seed.example.org:7710");
  const Finding other = judge_seed(facts, {})[1];
  CHECK(other.verdict == Verdict::kWarning);
  CHECK(says(other, "port 7710"));
}

TEST_CASE("a refusal is told with what mends it, and with what is set here") {
  PeerConfig config;
  config.run.name = "ours";
  config.trust.allow = "list.txt";
  const auto greeting = [&](RefuseReason reason, bool by_us = false) {
    SeedFacts facts = reached_seed();
    facts.visit->welcomed = false;
    facts.visit->refused = gossip::Refused{.address = facts.address,
                                           .reason = reason,
                                           .ours = {.run = 1, .model = 2, .layout = 3},
                                           .theirs = {.run = 0x10, .model = 0x20, .layout = 0x30},
                                           .by_us = by_us};
    const auto findings = judge_seed(facts, config);
    REQUIRE(findings.size() == 2);
    CHECK(findings[1].verdict == Verdict::kFailed);
    return findings[1];
  };
  CHECK(says(greeting(RefuseReason::kRun), "run.name, run.seed and run.start"));
  CHECK(says(greeting(RefuseReason::kRun), "here \"ours\", 1 and \"\""));
  CHECK(says(greeting(RefuseReason::kModel), "theirs: 0000000000000020"));
  CHECK(says(greeting(RefuseReason::kModel), "[model]"));
  CHECK(says(greeting(RefuseReason::kLayout), "outer.fragments must be the same (here 5)"));
  CHECK(says(greeting(RefuseReason::kProtocol), "versions 1 to 4"));
  CHECK(says(greeting(RefuseReason::kNotAllowed), "trust.allow names there"));
  CHECK(!says(greeting(RefuseReason::kNotAllowed), "list.txt"));
  CHECK(says(greeting(RefuseReason::kNotAllowed, true), "(here list.txt)"));
}

TEST_CASE("ports are dialled all at once, and what is wrong with each is told") {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  const tcp::endpoint any(boost::asio::ip::make_address("127.0.0.1"), 0);
  tcp::acceptor open(io, any), closed(io, any);
  const auto address = [](const tcp::acceptor& acceptor) {
    return at("127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()));
  };
  const std::vector<gossip::PeerAddress> seeds{address(open), address(closed)};
  closed.close();
  const auto dialled = dial(seeds);
  REQUIRE(dialled.size() == 2);
  CHECK(dialled[0].problem.empty());
  CHECK(dialled[0].addresses == std::vector<std::string>{"127.0.0.1"});
  CHECK(!dialled[1].problem.empty());
  CHECK(dialled[1].addresses.size() == 1);
  CHECK(dial({}).empty());
}

TEST_CASE("seeds that may not be greeted now are dialled, and told why and what to do") {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor open(io, tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0));
  gossip::PeerAddress seed = at("127.0.0.1:" + std::to_string(open.local_endpoint().port()));
  seed.key = gossip::Identity::draw().key();
  const gossip::Identity own = gossip::Identity::draw();
  PeerConfig config;
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  const StripeTable stripes(layout.value());
  const std::array seeds{seed};
  const VisitPlan plan{
      .config = config, .identity = own, .digests = {}, .stripes = stripes, .seeds = seeds};
  const auto groups = check_seeds(plan, {"it is noon", "wait until it is one"});
  REQUIRE(groups.size() == 1);
  REQUIRE(groups[0].findings.size() == 2);
  CHECK(groups[0].findings[0].verdict == Verdict::kOk);
  const Finding& greeting = groups[0].findings[1];
  CHECK(greeting.verdict == Verdict::kWarning);
  CHECK(greeting.text == "not greeted: it is noon");
  CHECK(greeting.remedy == "wait until it is one");
}

}  // namespace starling::peer

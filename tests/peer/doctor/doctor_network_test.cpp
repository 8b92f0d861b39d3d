#include "peer/doctor/doctor_network.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "peer/config/addresses.h"

namespace starling::peer {

namespace {

gossip::PeerAddress at(const char* text) { return parse_address(text, 0).value(); }

}  // namespace

TEST_CASE("an address that a seed cannot call is worth a warning") {
  const std::vector<gossip::PeerAddress> far{at("127.0.0.1:7700"), at("203.0.113.7:7700")};
  const std::vector<gossip::PeerAddress> near{at("127.0.0.1:7700")};
  const std::vector<gossip::PeerAddress> named{at("peer.example.org:7700")};
  const Finding loopback = judge_address(at("127.0.0.1:7700"), far);
  CHECK(loopback.verdict == Verdict::kWarning);
  CHECK(loopback.remedy.find("gossip.advertise") != std::string::npos);
  CHECK(judge_address(at("127.0.0.1:7700"), near).verdict == Verdict::kOk);
  CHECK(judge_address(at("127.0.0.1:7700"), {}).verdict == Verdict::kOk);
  CHECK(judge_address(at("127.0.0.1:7700"), named).verdict == Verdict::kOk);
  CHECK(judge_address(at("192.168.1.5:7700"), far).verdict == Verdict::kWarning);
  CHECK(judge_address(at("198.51.100.1:7700"), far).verdict == Verdict::kOk);
  CHECK(judge_address(at("home.example.org:7700"), far).verdict == Verdict::kOk);
  CHECK(judge_address({}, far).text.find("gossip.listen is empty") != std::string::npos);
}

TEST_CASE("a port that is taken is told, and one that is free is free again") {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  const tcp::endpoint any(boost::asio::ip::make_address("127.0.0.1"), 0);
  tcp::acceptor taken(io, any);
  tcp::acceptor next(io, any);
  const std::string address = "127.0.0.1:" + std::to_string(taken.local_endpoint().port());
  PeerConfig config;
  config.gossip.listen = "127.0.0.1:0";
  config.status.listen = address;
  auto findings = check_addresses(config, {});
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].verdict == Verdict::kOk);
  CHECK(findings[2].verdict == Verdict::kWarning);
  CHECK(findings[2].remedy.find("status.listen") != std::string::npos);
  config.gossip.listen = address;
  config.status.listen.clear();
  findings = check_addresses(config, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kFailed);
  CHECK(findings[0].text.find(address) != std::string::npos);
  CHECK(findings[0].remedy.find("gossip.listen") != std::string::npos);
  // By this peer itself, whose process is known.
  config.status.listen = address;
  findings = check_addresses(config, {}, "4711");
  REQUIRE(findings.size() == 2);
  for (const Finding& finding : findings) {
    CHECK(finding.verdict == Verdict::kOk);
    CHECK(finding.text.find(address + ": this peer runs as process 4711") == 0);
  }
  config.status.listen.clear();
  config.gossip.bulk_port = next.local_endpoint().port();
  taken.close();
  next.close();
  for (int again = 0; again < 2; ++again) {
    CHECK(check_addresses(config, {}).front().verdict == Verdict::kOk);
  }
}

TEST_CASE("a status page at a name ends a peer, and so fails here") {
  PeerConfig config;
  config.gossip.listen = "127.0.0.1:0";
  config.status.listen = "foo:7780";
  const Finding page = check_addresses(config, {}).back();
  CHECK(page.verdict == Verdict::kFailed);
  CHECK(page.remedy.find("status.listen") != std::string::npos);
}

TEST_CASE("a status page that other machines may read is worth a warning") {
  for (const char* page : {"127.0.0.1:7780", "[::1]:7780", "localhost:7780"}) {
    CAPTURE(std::string(page));
    CHECK(judge_page(at(page), "free").verdict == Verdict::kOk);
  }
  for (const char* page : {"0.0.0.0:7780", "[::]:7780", "192.0.2.1:7780"}) {
    CAPTURE(std::string(page));
    const Finding open = judge_page(at(page), "free");
    CHECK(open.verdict == Verdict::kWarning);
    CHECK(open.text.find("free; whoever can connect to it can read there") == 0);
    CHECK(open.remedy.find("status.listen = \"127.0.0.1:7780\"") == 0);
  }
}

TEST_CASE("a list of seeds that names this peer alone is worth a warning") {
  gossip::PeerAddress ours = at("192.0.2.1:7700"), theirs = at("192.0.2.2:7700");
  ours.key = gossip::stand_in_key(PeerId{1});
  theirs.key = gossip::stand_in_key(PeerId{2});
  const std::vector<gossip::PeerAddress> alone{ours}, both{ours, theirs};
  const auto warned = judge_seeds(alone, &ours.key);
  REQUIRE(warned);
  CHECK(warned->verdict == Verdict::kWarning);
  CHECK(warned->remedy.find("starling keygen") != std::string::npos);
  CHECK(!judge_seeds(both, &ours.key));
  CHECK(!judge_seeds(alone, &theirs.key));
  CHECK(!judge_seeds(alone, nullptr));
  const auto none = judge_seeds({}, &ours.key);
  REQUIRE(none);
  CHECK(none->verdict == Verdict::kOk);
  CHECK(none->text.find("waits to be called") != std::string::npos);
}

TEST_CASE("a machine whose TCP slows down for every loss is told how to mend that") {
  CHECK(judge_congestion_control(std::nullopt).verdict == Verdict::kOk);
  using gossip::CongestionControl;
  using gossip::Endurance;
  const Finding own = judge_congestion_control(CongestionControl{"htcp", Endurance::kOwn});
  CHECK(own.verdict == Verdict::kOk);
  CHECK(own.text.find("bbr") == std::string::npos);
  const Finding can = judge_congestion_control(CongestionControl{"cubic", Endurance::kGiven});
  CHECK(can.verdict == Verdict::kOk);
  CHECK(can.text.find("bbr") != std::string::npos);
  const Finding cannot = judge_congestion_control(CongestionControl{"cubic", Endurance::kNone});
  CHECK(cannot.verdict == Verdict::kWarning);
  CHECK(cannot.remedy.find("modprobe tcp_bbr") != std::string::npos);
}

}  // namespace starling::peer

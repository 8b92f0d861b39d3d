// The status server through real sockets on loopback: what clients do wrong, and what it costs.
#include "peer/status/status_server.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace starling::peer {

namespace {

using boost::asio::ip::tcp;

class RunningServer {
 public:
  explicit RunningServer(const StatusServerConfig& config = {}) {
    auto opened = StatusServer::open(config);
    REQUIRE(opened.ok());
    server_ = std::move(opened).value();
    server_->publish({{"step", 7}});
    thread_ = std::thread([this] { server_->run(); });
  }
  ~RunningServer() {
    server_->stop();
    thread_.join();
  }
  StatusServer& operator*() { return *server_; }
  StatusServer* operator->() { return server_.get(); }

 private:
  std::unique_ptr<StatusServer> server_;
  std::thread thread_;
};

constexpr std::string_view kFollow = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

class Client {
 public:
  explicit Client(RunningServer& server) {
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), server->port()});
  }
  // False where the server has hung up.
  bool say(std::string_view text) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(text), error);
    return !error;
  }
  // All there is until the server hangs up.
  std::string hear() {
    std::string heard = std::exchange(read_, {});
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(heard), error);
    return heard;
  }
  std::string hear_until(std::string_view end) {
    std::string heard;
    boost::asio::read_until(socket_, boost::asio::dynamic_buffer(read_), end);
    const std::size_t bytes = read_.find(end) + end.size();
    heard = read_.substr(0, bytes);
    read_.erase(0, bytes);
    return heard;
  }
  std::string hear_some(std::size_t bytes) {
    std::string heard(bytes, ' ');
    boost::asio::read(socket_, boost::asio::buffer(heard));
    return heard;
  }

 private:
  std::string read_;  // and not heard yet
  boost::asio::io_context io_;
  tcp::socket socket_{io_};
};

std::string ask(RunningServer& server, std::string_view request) {
  Client client(server);
  client.say(request);
  return client.hear();
}

std::string get(RunningServer& server, std::string_view path) {
  return ask(server, "GET " + std::string(path) +
                         " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a report that was published is served, and nobody may keep or reinterpret it") {
  RunningServer server;
  const std::string told = get(server, "/status");
  CHECK(told.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(told.ends_with("\r\n\r\n{\"step\":7}\n"));
  CHECK(contains(told, "Cache-Control: no-store\r\n"));
  CHECK(contains(told, "X-Content-Type-Options: nosniff\r\n"));
  server->publish({{"step", 8}});
  CHECK(contains(get(server, "/metrics"), "starling_steps_total 8\n"));
  CHECK(server->this_machine_only());
}

TEST_CASE("one connection asks several times, also all at once") {
  RunningServer server;
  Client client(server);
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.say(request + request +
             "HEAD /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string told = client.hear();
  const std::size_t second = told.find("HTTP/1.1 200 OK", 1);
  REQUIRE(second != std::string::npos);
  const std::size_t third = told.find("HTTP/1.1 200 OK", second + 1);
  REQUIRE(third != std::string::npos);
  CHECK(contains(told.substr(third), "Content-Length: 11\r\n"));
  CHECK(told.ends_with("\r\n\r\n"));  // a head without its body
}

TEST_CASE("what is no request is told so, and hung up on") {
  RunningServer server;
  for (const char* garbage :
       {"\x16\x03\x01\x02\x01\x01\r\n\r\n", "GET\r\n\r\n", "GET /status HTTP/9.9\r\n\r\n",
        "GET /status HTTP/1.1\r\nno colon here\r\n\r\n", "\r\n\r\n\r\n\r\n", "{\"a\": 1}\r\n\r\n",
        "GET /status HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    CAPTURE(std::string(garbage));
    const std::string told = ask(server, garbage);
    CHECK(told.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    CHECK(contains(told, "Connection: close\r\n"));
    CHECK(contains(told, "this is no HTTP request: "));
  }
  CHECK(contains(get(server, "/healthz"), "ok\n"));
}

TEST_CASE("random bytes are survived") {
  RunningServer server({.request_within = std::chrono::milliseconds(5)});
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::string noise = rng.below(2) == 0 ? "GET /status HTTP/1.1\r\n" : "";
    const std::size_t bytes = rng.below(3000);
    for (std::size_t i = 0; i < bytes; ++i) noise += static_cast<char>(rng.below(256));
    ask(server, noise);
  }
  // A busy machine may take longer to ask than there is time for.
  while (!contains(get(server, "/healthz"), "ok\n")) std::this_thread::yield();
}

TEST_CASE("a head without end is refused before it is read to its end") {
  RunningServer server;
  const std::string told =
      ask(server, "GET /status HTTP/1.1\r\nX: " + std::string(std::size_t{64} << 10, 'x'));
  CHECK(told.starts_with("HTTP/1.1 431 "));
  CHECK(ask(server, "GET /" + std::string(9000, 'x')).starts_with("HTTP/1.1 431 "));
}

TEST_CASE("a body is not taken, and cannot pass for the next request") {
  RunningServer server;
  const std::string inner = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string told =
      ask(server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                      std::to_string(inner.size()) + "\r\n\r\n" + inner);
  CHECK(told.starts_with("HTTP/1.1 413 "));
  CHECK(!contains(told, "step"));
  CHECK(ask(server,
            "POST /status HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            "\r\n5\r\nhello\r\n0\r\n\r\n")
            .starts_with("HTTP/1.1 405 "));
}

TEST_CASE("who does not finish a request is hung up on") {
  RunningServer server({.request_within = std::chrono::milliseconds(100)});
  Client silent(server);
  Client slow(server);
  slow.say("GET /status HT");
  CHECK(silent.hear().empty());
  CHECK(slow.hear().empty());
}

TEST_CASE("who never reads is dropped, and makes room") {
  RunningServer server({.connections_max = 1, .taken_within = std::chrono::milliseconds(500)});
  server->publish({{"large", std::string(std::size_t{32} << 20, 'x')}});
  Client deaf(server);
  REQUIRE(deaf.say("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(deaf.hear_some(12) == "HTTP/1.1 200");  // it is being served, so the place is taken
  const std::string refused = get(server, "/healthz");
  CHECK(refused.starts_with("HTTP/1.1 503 "));
  CHECK(contains(refused, "too many connections"));
  while (!contains(get(server, "/healthz"), "ok\n")) std::this_thread::yield();
  CHECK(deaf.hear().size() < std::size_t{32} << 20);
}

TEST_CASE("who follows the events hears the history first and then every report") {
  RunningServer server;
  Client follower(server);
  follower.say(kFollow);
  std::string heard = follower.hear_until("event: report\ndata: {\"step\":7}\n\n");
  CHECK(heard.find("text/event-stream") < heard.find("event: history\ndata: {\"columns\":["));
  CHECK(contains(heard, "event: history\n"));
  server->publish({{"step", 8}});
  heard = follower.hear_until("\n\n");
  CHECK(heard == "event: report\ndata: {\"step\":8}\n\n");
}

TEST_CASE("a page that takes events slowly hears of fewer reports, and of the newest at the end") {
  constexpr std::size_t kReports = 50;
  RunningServer server;
  Client slow(server);
  slow.say(kFollow);
  slow.hear_until("{\"step\":7}\n\n");
  const std::string large(std::size_t{1} << 20, 'x');  // of which sockets hold a few
  for (std::size_t i = 1; i <= kReports; ++i) {
    server->publish({{"large", large}, {"step", 100 + i}});
  }
  CHECK(contains(get(server, "/status"), "\"step\":150}\n"));  // all of them have come
  const std::string heard = slow.hear_until("\"step\":150}\n\n");
  constexpr std::string_view kStep = "\"step\":";
  std::vector<int> steps;
  for (std::size_t at = heard.find(kStep); at < heard.size(); at = heard.find(kStep, at + 1)) {
    steps.push_back(std::stoi(heard.substr(at + kStep.size(), 3)));
  }
  CHECK(steps.size() < kReports);
  const auto twice = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>());
  CHECK(twice == steps.end());  // each is newer than the one before
}

TEST_CASE("followers leave room for others, and one that never reads is dropped") {
  RunningServer server({.followers_max = 1, .taken_within = std::chrono::milliseconds(300)});
  Client deaf(server);
  deaf.say(kFollow);
  deaf.hear_until("\n\n");
  CHECK(contains(get(server, "/events"), "too many pages follow this peer"));
  CHECK(contains(get(server, "/healthz"), "ok\n"));
  server->publish({{"large", std::string(std::size_t{32} << 20, 'x')}});
  const auto follows = [&server] {
    Client next(server);
    next.say(kFollow);
    return contains(next.hear_until("\n"), " 200 ");
  };
  while (!follows()) std::this_thread::yield();
  CHECK(deaf.hear().size() < std::size_t{32} << 20);
}

TEST_CASE("connections that ask nothing make room for whoever does, the idlest first") {
  RunningServer server({.connections_max = 3, .request_within = std::chrono::minutes(5)});
  const auto ask = [](Client& client) {
    client.say("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client.hear_until("ok\n");
  };
  Client silent(server);
  silent.say("GET /");
  Client first(server);
  Client second(server);
  CHECK(contains(ask(first), " 200 "));
  CHECK(contains(ask(second), " 200 "));
  CHECK(contains(get(server, "/healthz"), "ok\n"));
  CHECK(silent.hear().empty());
  CHECK(contains(ask(first), " 200 "));
  CHECK(contains(ask(second), " 200 "));
}

TEST_CASE("an address that cannot be had is told from one that is none") {
  RunningServer server;
  auto taken = StatusServer::open({.port = server->port()});
  REQUIRE(!taken.ok());
  CHECK(taken.error().code() == ErrorCode::kUnavailable);
  auto nonsense = StatusServer::open({.host = "starling.example"});
  REQUIRE(!nonsense.ok());
  CHECK(nonsense.error().code() == ErrorCode::kInvalidConfig);
}

TEST_CASE("a server that was stopped lets go of those it was serving") {
  std::unique_ptr<Client> left;
  {
    RunningServer server;
    left = std::make_unique<Client>(server);
    left->say("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    left->hear_some(12);
  }
  left->hear();  // ends
}

}  // namespace starling::peer

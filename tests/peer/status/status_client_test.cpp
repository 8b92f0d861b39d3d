// The status client against servers of all kinds, through real sockets on loopback.
#include "peer/status/status_client.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "peer/status/status_server.h"

namespace starling::peer {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using nlohmann::json;

// Gives one client an answer that was made up before, and hears what it asked.
class Stranger {
 public:
  Stranger(std::string answer, bool hangs_up = true)
      : answer_(std::move(answer)), hangs_up_(hangs_up), thread_([this] { serve(); }) {}
  ~Stranger() { thread_.join(); }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void serve() {
    boost::system::error_code error;
    tcp::socket client = acceptor_.accept();
    std::string heard;
    asio::read_until(client, asio::dynamic_buffer(heard), "\r\n\r\n", error);
    asio::write(client, asio::buffer(answer_), error);
    // Otherwise it waits until the client has had enough.
    if (hangs_up_) client.shutdown(tcp::socket::shutdown_send, error);
    while (!error) {
      heard.resize(4096);
      client.read_some(asio::buffer(heard), error);
    }
  }

  const std::string answer_;
  const bool hangs_up_;
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, {asio::ip::make_address("127.0.0.1"), 0}};
  std::thread thread_;
};

StatusQuestion to(std::uint16_t port) { return {.host = "127.0.0.1", .port = port}; }

Error refusal(const std::string& answer) {
  Stranger stranger(answer);
  auto report = ask_status(to(stranger.port()));
  REQUIRE(!report.ok());
  return std::move(report).error();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("the report of a status server is fetched, by address and by name") {
  auto opened = StatusServer::open({});
  REQUIRE(opened.ok());
  StatusServer& server = *opened.value();
  std::thread thread([&server] { server.run(); });
  for (const char* host : {"127.0.0.1", "localhost"}) {
    CAPTURE(std::string(host));
    server.publish({{"phase", "training"}, {"step", 7}});
    auto report = ask_status({.host = host, .port = server.port()});
    REQUIRE(report.ok());
    CHECK(report.value().at("step") == 7);
  }
  server.stop();
  thread.join();
}

TEST_CASE("a peer that has not reported yet is a peer") {
  Stranger stranger(ok("{}"));
  auto report = ask_status(to(stranger.port()));
  REQUIRE(report.ok());
  CHECK(report.value().empty());
}

TEST_CASE("where nobody listens, one is told how to have somebody listen") {
  asio::io_context io;
  tcp::acceptor bound(io);  // keeps the port from others, without listening
  bound.open(tcp::v4());
  bound.bind({asio::ip::make_address("127.0.0.1"), 0});
  auto report = ask_status(to(bound.local_endpoint().port()));
  REQUIRE(!report.ok());
  CHECK(report.error().code() == ErrorCode::kUnavailable);
  CHECK(contains(report.error().message(), "127.0.0.1:"));
  CHECK(contains(report.error().message(), "status.listen"));
}

TEST_CASE("what is no status server is told from one") {
  for (const std::string& answer :
       {ok("[1, 2]"), ok("{\"a\": 1}"), ok("<html></html>"), ok(""),
        std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        std::string("\xff\x00\x00\x00\x00\x00\x00\x01\x7f\x03 ZeroMQ\r\n\r\n", 20),
        std::string("220 mail.example ESMTP\r\n\r\n")}) {
    CAPTURE(answer);
    const Error error = refusal(answer);
    CHECK(error.code() == ErrorCode::kProtocol);
    CHECK(contains(error.message(), "no status server"));
  }
  CHECK(contains(refusal("HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nnot here\n").message(),
                 "403: not here"));
}

TEST_CASE("what is nested without end is left out") {
  const std::size_t depth = 1'000'000;
  Stranger stranger(
      ok("{\"phase\":\"done\",\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}"));
  auto report = ask_status(to(stranger.port()));
  REQUIRE(report.ok());
  CHECK(json(report.value()).dump().size() < 100);
}

TEST_CASE("an answer without end is not read to its end") {
  const std::string large(std::size_t{5} << 20, ' ');
  CHECK(contains(refusal(ok(large)).message(), "too large"));
  CHECK(contains(refusal("HTTP/1.1 200 OK\r\n\r\n" + large).message(), "too large"));
  CHECK(contains(refusal("HTTP/1.1 200 OK\r\nX: " + large).message(), "too large"));
}

TEST_CASE("who answers half, or not at all, is not waited for") {
  for (const char* answer : {"", "HTTP/1.1 200 OK\r\nContent-Le",
                             "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ph"}) {
    CAPTURE(std::string(answer));
    Stranger stranger(answer, false);
    auto report = ask_status(
        {.host = "127.0.0.1", .port = stranger.port(), .patience = std::chrono::milliseconds(100)});
    REQUIRE(!report.ok());
    CHECK(report.error().code() == ErrorCode::kTimeout);
  }
  for (const char* answer : {"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ph"}) {
    const Error error = refusal(answer);
    CHECK(error.code() == ErrorCode::kUnavailable);
    CHECK(contains(error.message(), "hung up"));
  }
}

}  // namespace starling::peer

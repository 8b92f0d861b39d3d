#include "peer/status/status_server.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <utility>

#include "peer/io/clock.h"
#include "peer/status/status_request.h"

namespace starling::peer {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// What the kernel keeps for a client that does not read, before its time to take an answer runs.
constexpr int kSendBufferBytes = 64 * 1024;
constexpr Duration kGoodbye = std::chrono::seconds(1);  // to take the last answer
constexpr Duration kAcceptPause = std::chrono::seconds(1);
constexpr std::uint64_t kHistoryEvery = 30;  // reports
constexpr const char* kEventsHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
constexpr const char* kFull =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
    "too many connections: try again later\n";

// Whose request is awaited, the longest first.
using Waiting = std::list<beast::tcp_stream*>;

class Awaited {
 public:
  Awaited(Waiting& waiting, beast::tcp_stream& stream)
      : waiting_(waiting), place_(waiting.insert(waiting.end(), &stream)) {}
  ~Awaited() { waiting_.erase(place_); }
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

 private:
  Waiting& waiting_;
  const Waiting::iterator place_;
};

class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

template <class Response>
void set_head(Response& response, std::string_view type) {
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
}

StatusAnswer too_many_followers() {
  return {.code = 503, .body = "too many pages follow this peer: close one\n"};
}

}  // namespace

struct StatusServer::Impl {
  explicit Impl(StatusServerConfig settings) : config(std::move(settings)), board(now()) {}

  const StatusServerConfig config;
  bool this_machine = true;
  StatusBoard board;
  std::size_t connections = 0, followers = 0;
  Waiting waiting;
  // Behind what the sessions count in: they end with it, if they have not before.
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer news{io, asio::steady_timer::time_point::max()};  // cancelled when it comes

  Status listen();
  asio::awaitable<void> accept_all();
  void turn_away(tcp::socket socket) const;
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<bool> serve_one(beast::tcp_stream& stream, beast::flat_buffer& buffer);
  asio::awaitable<bool> send(beast::tcp_stream& stream, const StatusRequestReader& reader,
                             StatusAnswer answer, bool keep);
  asio::awaitable<void> follow(beast::tcp_stream& stream);
  asio::awaitable<bool> take(beast::tcp_stream& stream, std::string text) const;
  static asio::awaitable<void> say_goodbye(beast::tcp_stream& stream);
};

Status StatusServer::Impl::listen() {
  error_code error;
  const auto address =
      asio::ip::make_address(config.host == "localhost" ? "127.0.0.1" : config.host, error);
  if (error) {
    return Error(ErrorCode::kInvalidConfig, config.host + " is no IP address, nor localhost");
  }
  this_machine = address.is_loopback();
  const tcp::endpoint endpoint(address, config.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  const bool taken = error == asio::error::address_in_use;
  if (error) return Error(taken ? ErrorCode::kUnavailable : ErrorCode::kIo, error.message());
  return ok_status();
}

asio::awaitable<void> StatusServer::Impl::accept_all() {
  while (true) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(into(error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // no descriptor is free, for example
      asio::steady_timer pause(io, kAcceptPause);
      co_await pause.async_wait(into(error));
    } else if (connections >= config.connections_max && waiting.empty()) {
      turn_away(std::move(socket));
    } else {
      // Those that ask nothing must not keep out whoever does, as what looks at /healthz.
      if (connections >= config.connections_max) waiting.front()->close();
      asio::co_spawn(io, serve(std::move(socket)), asio::detached);
    }
  }
}

// Without waiting for anything.
void StatusServer::Impl::turn_away(tcp::socket socket) const {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(std::string_view(kFull)), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> StatusServer::Impl::serve(tcp::socket socket) {
  const Counted connection(connections);
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(tcp::socket::send_buffer_size(kSendBufferBytes), ignored);
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(config.request_bytes_max);
  while (co_await serve_one(stream, buffer)) {
  }
  co_await say_goodbye(stream);
}

// False: this was the last request of the connection.
asio::awaitable<bool> StatusServer::Impl::serve_one(beast::tcp_stream& stream,
                                                    beast::flat_buffer& buffer) {
  StatusRequestReader reader;
  reader.header_limit(static_cast<std::uint32_t>(config.request_bytes_max));
  error_code error;
  stream.expires_after(config.request_within);
  {
    const Awaited awaited(waiting, stream);
    co_await http::async_read_header(stream, buffer, reader, into(error));
  }
  if (error) {
    if (is_no_request(error)) co_await send(stream, reader, complaint(error), false);
    co_return false;
  }
  const StatusRequest request = described(reader, this_machine);
  const bool keep = reader.get().keep_alive() && !request.has_body;
  StatusAnswer reply = answer(request, board, now());
  if (!reply.follow || reader.get().method() != http::verb::get) {
    co_return co_await send(stream, reader, std::move(reply), keep);
  }
  if (followers >= config.followers_max) {
    co_return co_await send(stream, reader, too_many_followers(), keep);
  }
  co_await follow(stream);
  co_return false;
}

// True: the answer went out, and another request may come.
asio::awaitable<bool> StatusServer::Impl::send(beast::tcp_stream& stream,
                                               const StatusRequestReader& reader,
                                               StatusAnswer answer, bool keep) {
  const bool head_only = reader.get().method() == http::verb::head;
  http::response<http::string_body> response(static_cast<http::status>(answer.code), 11);
  set_head(response, answer.type);
  if (!answer.policy.empty()) response.set("Content-Security-Policy", std::string(answer.policy));
  if (answer.code == 405) response.set(http::field::allow, "GET, HEAD");
  response.keep_alive(keep);
  response.content_length(answer.body.size());
  if (!head_only) response.body() = std::move(answer.body);
  http::response_serializer<http::string_body> serializer(response);
  error_code error;
  stream.expires_after(config.taken_within);
  if (head_only) {
    co_await http::async_write_header(stream, serializer, into(error));
  } else {
    co_await http::async_write(stream, serializer, into(error));
  }
  co_return keep && !error;
}

// Server-sent events until the client has enough: first how it came, then every report. Always the
// newest, so nothing queues up for one that takes them slowly.
asio::awaitable<void> StatusServer::Impl::follow(beast::tcp_stream& stream) {
  const Counted follower(followers);
  std::string events = kEventsHead;
  std::uint64_t reports = 0;
  std::uint64_t told = 0;
  while (true) {
    if (board.version() != told) {
      told = board.version();
      if (reports++ % kHistoryEvery == 0) events += board.history_event();
      events += board.report_event();
    }
    if (!events.empty() && !co_await take(stream, std::exchange(events, {}))) co_return;
    if (board.version() != told) continue;
    error_code cancelled;
    co_await news.async_wait(into(cancelled));
  }
}

asio::awaitable<bool> StatusServer::Impl::take(beast::tcp_stream& stream, std::string text) const {
  error_code error;
  stream.expires_after(config.taken_within);
  co_await asio::async_write(stream, asio::buffer(text), into(error));
  co_return !error;
}

// Reads what is still under way, so that the last answer is not lost with the connection.
asio::awaitable<void> StatusServer::Impl::say_goodbye(beast::tcp_stream& stream) {
  error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  std::array<char, 4096> rest{};
  stream.expires_after(kGoodbye);
  while (!error) co_await stream.async_read_some(asio::buffer(rest), into(error));
}

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StatusServer::~StatusServer() = default;

Result<std::unique_ptr<StatusServer>> StatusServer::open(const StatusServerConfig& config) {
  auto impl = std::make_unique<Impl>(config);
  Status listening = impl->listen();
  if (!listening.ok()) return std::move(listening).error();
  asio::co_spawn(impl->io, impl->accept_all(), asio::detached);
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

std::uint16_t StatusServer::port() const { return impl_->acceptor.local_endpoint().port(); }
bool StatusServer::this_machine_only() const { return impl_->this_machine; }

std::string StatusServer::url() const {
  const auto address = impl_->acceptor.local_endpoint().address();
  const std::string text = address.to_string();
  return fmt::format("http://{}:{}/", address.is_v6() ? "[" + text + "]" : text, port());
}

void StatusServer::run() { impl_->io.run(); }
void StatusServer::stop() { impl_->io.stop(); }

void StatusServer::publish(nlohmann::json report) {
  asio::post(impl_->io, [this, report = std::move(report)]() mutable {
    impl_->board.put(now(), std::move(report));
    impl_->news.cancel();
  });
}

}  // namespace starling::peer

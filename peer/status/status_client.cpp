#include "peer/status/status_client.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "peer/io/json_fields.h"

namespace starling::peer {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using nlohmann::json;
using Parser = http::response_parser<http::string_body>;

constexpr std::uint32_t kHeadBytesMax = 8192;
constexpr std::size_t kQuotedMax = 160;  // of what a server says instead of a report

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

std::string authority(const StatusQuestion& question) {
  const bool v6 = question.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", question.host, v6 ? "]" : "", question.port);
}

Error no_server(std::string why) {
  return Error(ErrorCode::kProtocol, "that is no status server of a peer: " + std::move(why));
}

Error failed(const error_code& error) {
  if (error == beast::error::timeout) {
    return Error(ErrorCode::kTimeout, "no whole answer came in time; is the peer stopped?");
  }
  if (error == http::error::body_limit || error == http::error::header_limit) {
    return no_server("its answer is too large");
  }
  const bool hung_up = error == http::error::end_of_stream ||
                       error == http::error::partial_message ||
                       error == asio::error::connection_reset;
  if (hung_up) {
    return Error(ErrorCode::kUnavailable,
                 "it hung up before it answered. Does the peer end, or is that no status server?");
  }
  if (error.category() == make_error_code(http::error::bad_version).category()) {
    return no_server("it does not speak HTTP (" + error.message() + ")");
  }
  if (error == asio::error::connection_refused) {
    return Error(ErrorCode::kUnavailable,
                 "nobody listens there. Does the peer run, and with status.listen at this address? "
                 "It logs \"status page: http://...\" when it starts");
  }
  return Error(ErrorCode::kUnavailable, error.message());
}

// Until `error`, or the whole answer is in `parser`.
asio::awaitable<void> talk(const StatusQuestion& question, Parser& parser, error_code& error) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto addresses =
      co_await resolver.async_resolve(question.host, std::to_string(question.port), into(error));
  if (error) co_return;
  beast::tcp_stream stream(executor);
  stream.expires_after(question.patience);
  co_await stream.async_connect(addresses, into(error));
  if (error) co_return;
  http::request<http::empty_body> request(http::verb::get, "/status", 11);
  request.set(http::field::host, authority(question));
  request.keep_alive(false);
  co_await http::async_write(stream, request, into(error));
  if (error) co_return;
  beast::flat_buffer buffer;
  co_await http::async_read(stream, buffer, parser, into(error));
}

Result<json> report_of(const http::response<http::string_body>& response) {
  if (response.result() != http::status::ok) {
    return no_server(fmt::format("it answers {}: {}", response.result_int(),
                                 response.body().substr(0, kQuotedMax)));
  }
  return parse_status_report(response.body());
}

}  // namespace

Result<json> parse_status_report(std::string_view text) {
  json report = parse_shallow(text);
  const bool ours = report.is_object() && (report.empty() || report.contains("phase"));
  if (!ours) return no_server("its /status is no report");
  return report;
}

Result<json> ask_status(const StatusQuestion& question) {
  Parser parser;
  parser.header_limit(kHeadBytesMax);
  parser.body_limit(question.answer_bytes_max);
  error_code error;
  asio::io_context io{1};
  asio::co_spawn(io, talk(question, parser, error), asio::detached);
  io.run();
  if (error) return failed(error).with_context(authority(question));
  auto report = report_of(parser.get());
  if (!report.ok()) return std::move(report).error().with_context(authority(question));
  return report;
}

}  // namespace starling::peer

#include "peer/status/status_request.h"

#include <doctest/doctest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <string>
#include <string_view>

namespace starling::peer {

namespace {

namespace http = boost::beast::http;

// All at once; what the reader says of it.
boost::system::error_code read(StatusRequestReader& reader, std::string_view text) {
  reader.header_limit(64);
  boost::system::error_code error;
  reader.put(boost::asio::buffer(text.data(), text.size()), error);
  return error;
}

StatusAnswer complaint_of(std::string_view text) {
  StatusRequestReader reader;
  const auto error = read(reader, text);
  REQUIRE(is_no_request(error));
  return complaint(error);
}

}  // namespace

TEST_CASE("a head is described by what the answer depends on") {
  StatusRequestReader reader;
  CHECK(!read(reader, "HEAD /status?x HTTP/1.1\r\nHost: a:1\r\n\r\n"));
  const StatusRequest request = described(reader, false);
  CHECK(request.method == "HEAD");
  CHECK(request.target == "/status?x");
  CHECK(request.host == "a:1");
  CHECK(!request.has_body);
  CHECK(!request.this_machine);
}

TEST_CASE("a body is seen, however its length is told") {
  for (const char* const length : {"Content-Length: 1", "Transfer-Encoding: chunked"}) {
    CAPTURE(length);
    StatusRequestReader reader;
    CHECK(!read(reader, "GET / HTTP/1.1\r\n" + std::string(length) + "\r\n\r\n"));
    CHECK(described(reader, true).has_body);
  }
}

TEST_CASE("what is no request is complained of, and none of it comes back") {
  const StatusAnswer tls = complaint_of("\x16\x03\x01 <script> \r\n\r\n");
  CHECK(tls.code == 400);
  CHECK(tls.body.starts_with("this is no HTTP request: "));
  CHECK(tls.body.find("script") == std::string::npos);
  CHECK(complaint_of("GET / HTTP/1.1\r\nX: " + std::string(64, 'x')).code == 431);
}

TEST_CASE("who hangs up is owed no answer") {
  CHECK(!is_no_request(http::error::end_of_stream));
  CHECK(!is_no_request(http::error::partial_message));
  CHECK(!is_no_request(make_error_code(boost::system::errc::connection_reset)));
}

}  // namespace starling::peer

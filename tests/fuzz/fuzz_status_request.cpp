// Feeds what a client sends to the reader of requests, as the status server does, and answers it.
// The first byte says how many bytes arrive at a time, and its highest bit whether the server
// listens on this machine only. Requests follow one another until one is refused, as they do on a
// connection that is kept.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "base/assert.h"
#include "peer/status/status_request.h"

namespace {

using namespace starling::peer;
namespace http = boost::beast::http;

constexpr std::size_t kHeadBytesMax = 8192;
constexpr std::size_t kBodyBytesMax = std::size_t{1} << 20;  // of an answer

// The bytes of a connection, so many at a time.
class Connection {
 public:
  Connection(std::span<const std::uint8_t> bytes, std::size_t step) : rest_(bytes), step_(step) {}

  bool receive() {
    const std::size_t bytes = std::min({step_, rest_.size(), kHeadBytesMax - buffer.size()});
    boost::asio::buffer_copy(buffer.prepare(bytes), boost::asio::buffer(rest_.data(), bytes));
    buffer.commit(bytes);
    rest_ = rest_.subspan(bytes);
    return bytes > 0;
  }
  boost::beast::flat_buffer buffer{kHeadBytesMax};

 private:
  std::span<const std::uint8_t> rest_;
  std::size_t step_;
};

// Whether a whole head came; if not, `error` says why.
bool read_head(Connection& connection, StatusRequestReader& reader,
               boost::system::error_code& error) {
  while (!reader.is_header_done()) {
    connection.buffer.consume(reader.put(connection.buffer.data(), error));
    if (error && error != http::error::need_more) return false;
    if (!reader.is_header_done() && !connection.receive()) return false;
  }
  return true;
}

void check(const StatusAnswer& answer) {
  static const std::set<unsigned> kCodes{200, 400, 403, 404, 405, 413, 431};
  STARLING_ASSERT(kCodes.contains(answer.code));
  STARLING_ASSERT(answer.body.size() <= kBodyBytesMax);
  STARLING_ASSERT(answer.follow || answer.body.ends_with('\n'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  static const StatusBoard kBoard(starling::Instant{});
  const bool this_machine = (data[0] & 0x80U) != 0;
  Connection connection({data + 1, size - 1}, std::size_t{1} << (data[0] % 14U));
  while (true) {
    StatusRequestReader reader;
    reader.header_limit(kHeadBytesMax);
    boost::system::error_code error;
    if (!read_head(connection, reader, error)) {
      if (is_no_request(error)) check(complaint(error));
      return 0;
    }
    const StatusRequest request = described(reader, this_machine);
    const StatusAnswer reply = answer(request, kBoard, starling::Instant{});
    check(reply);
    if (request.has_body || !reader.get().keep_alive() || reply.follow) return 0;
  }
}

#include "peer/status/status_request.h"

#include <boost/beast/http/error.hpp>

namespace starling::peer {

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

StatusRequest described(const StatusRequestReader& reader, bool this_machine) {
  const auto& request = reader.get();
  return {.method = view(request.method_string()),
          .target = view(request.target()),
          .host = view(request[http::field::host]),
          .has_body = reader.chunked() || reader.content_length().value_or(0) > 0,
          .this_machine = this_machine};
}

bool is_no_request(const error_code& error) {
  const bool hung_up = error == http::error::end_of_stream || error == http::error::partial_message;
  return !hung_up && error.category() == make_error_code(http::error::bad_method).category();
}

StatusAnswer complaint(const error_code& error) {
  const bool large = error == http::error::header_limit || error == http::error::buffer_overflow;
  if (large) return {.code = 431, .body = "the head of this request is too large\n"};
  return {.code = 400, .body = "this is no HTTP request: " + error.message() + "\n"};
}

}  // namespace starling::peer

// The head of an HTTP request, as Boost.Beast reads it and status_routes.h answers it. Pure; any
// thread.
//
// Whoever connects may send anything. The reader holds no more than `header_limit` bytes; what it
// makes of them lives as long as it does.
#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "peer/status/status_routes.h"

namespace starling::peer {

using StatusRequestReader = boost::beast::http::request_parser<boost::beast::http::empty_body>;

// Of a reader that has read a whole head.
StatusRequest described(const StatusRequestReader& reader, bool this_machine);

// Why the reader stopped before that: the bytes are no request, and not that the line has ended.
bool is_no_request(const boost::system::error_code& error);
// What is answered to them. Nothing of what was sent is in it.
StatusAnswer complaint(const boost::system::error_code& error);

}  // namespace starling::peer

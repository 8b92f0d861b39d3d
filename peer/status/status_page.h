// The page "/" of the status server: one document, with its style and its program inside, made at
// build time of the readable files in status_page/. It asks nothing of any other host, and its
// policy lets a browser run and draw that program and that style and nothing else.
#pragma once

#include <string>

namespace starling::peer {

struct StatusPage {
  std::string html;
  std::string policy;  // for the header Content-Security-Policy
};

const StatusPage& status_page();  // any thread

}  // namespace starling::peer

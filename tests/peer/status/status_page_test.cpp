#include "peer/status/status_page.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::peer {

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the page is whole, and names no other host") {
  const std::string& html = status_page().html;
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(contains(html, "prefers-color-scheme: dark"));
  CHECK(contains(html, "new EventSource(\"/events\")"));
  CHECK(!contains(html, "@STYLE@"));
  CHECK(!contains(html, "@SCRIPT@"));
  // The one address in it is the name of SVG, which nobody asks for.
  std::string rest = html;
  const std::string svg = "http://www.w3.org/2000/svg";
  rest.erase(rest.find(svg), svg.size());
  for (const char* sign : {"http:", "https:", "src=", "@import", "url("}) {
    CAPTURE(std::string(sign));
    CHECK(!contains(rest, sign));
  }
}

TEST_CASE("what other peers say can never become markup") {
  const std::string& html = status_page().html;
  for (const char* way :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("}) {
    CAPTURE(std::string(way));
    CHECK(!contains(html, way));
  }
  const std::string& policy = status_page().policy;
  CHECK(contains(policy, "default-src 'none'"));
  CHECK(!contains(policy, "unsafe"));
}

}  // namespace starling::peer

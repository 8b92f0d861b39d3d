#include "peer/commands/manual_page.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::peer {
namespace {

const CommandText kProgram{
    .name = "tool",
    .purpose = "Does things",
    .options = {{.names = {"-h", "--help"}, .purpose = "Print this"}},
    .commands = {
        {.name = "make",
         .purpose = ".makes a \\ thing",
         .options = {{.names = {"-h", "--help"}, .purpose = "Print this"},
                     {.names = {"out"}, .value = "FILE", .positional = true, .required = true},
                     {.names = {"in"}, .value = "IN", .positional = true, .repeated = true},
                     {.names = {"--kind"},
                      .value = "KIND",
                      .choices = {"old", "new"},
                      .preset = "old",
                      .purpose = "Of the thing"}}},
        {.name = "group", .purpose = "More", .commands = {{.name = "sub", .purpose = "Deep"}}}}};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a manual page has a name line, each command's synopsis, and its options") {
  const std::string page = manual_page(kProgram, "1.2");
  CHECK(page.starts_with(".TH TOOL 1 \"\" \"tool 1.2\" \"User Commands\"\n"));
  CHECK(contains(page, ".SH NAME\ntool \\- does things\n"));
  CHECK(contains(page, ".SS \\fBtool make\\fR [\\fIOPTION\\fR...] \\fIFILE\\fR [\\fIIN\\fR...]\n"));
  CHECK(contains(page,
                 ".TP\n\\fB\\-\\-kind\\fR \\fIKIND\\fR\nOf the thing. One of: old, new. "
                 "Default: old.\n"));
  CHECK(contains(page, "\\fBtool group sub\\fR"));
  CHECK(!contains(page, "\\fBtool group\\fR"));  // it does nothing without a command behind it
}

TEST_CASE("no letter of a text is a request to the formatter") {
  CHECK(contains(manual_page(kProgram, "1.2"), "\n\\&.makes a \\e thing.\n"));
}

TEST_CASE("all that a peer writes is told") {
  const std::string page = manual_page(kProgram, "1.2");
  for (const char* file : {"lock", "peer.json", "key", "config.toml", "metrics.jsonl",
                           "events.jsonl", "tensorboard/", "traffic", "checkpoints/", "join/"}) {
    CAPTURE(std::string(file));
    CHECK(contains(page.substr(page.find(".SH FILES")), file));
  }
}

TEST_CASE("the help option is told once") {
  const std::string page = manual_page(kProgram, "1.2");
  CHECK(page.find("Print this") == page.rfind("Print this"));
}

}  // namespace
}  // namespace starling::peer

#include "peer/commands/cli_fault.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace starling::peer {

namespace {

std::string fault(std::vector<std::string> words) {
  CLI::App app("", "tool");
  app.require_subcommand(1);
  CLI::App* make = app.add_subcommand("make");
  std::string out;
  int size = 0;
  make->add_option("--out", out)->required();
  make->add_option("--size", size);
  CLI::App* box = app.add_subcommand("box");
  box->require_subcommand(1);
  box->add_subcommand("open");
  box->add_subcommand("close");
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::Error& error) {
    return command_line_fault(&app, error);
  }
  return "";
}

}  // namespace

TEST_CASE("a word that a command does not know is named, and the one that was probably meant") {
  CHECK(fault({"make", "--out", "x"}).empty());
  CHECK(fault({"mkae"}) ==
        "tool: there is no command mkae; did you mean make?\n'tool --help' tells more.\n");
  CHECK(fault({"dance"}) == "tool: there is no command dance\n'tool --help' tells more.\n");
  CHECK(fault({"make", "--otu=x"}) ==
        "tool make: there is no option --otu; did you mean --out?\n"
        "'tool make --help' tells more.\n");
  CHECK(
      fault({"box", "opne"}).starts_with("tool box: there is no command opne; did you mean open?"));
  CHECK(fault({"make", "--out", "x", "y"}).starts_with("tool make: one argument too many: y\n"));
}

TEST_CASE("what is missing or wrong is named with its command") {
  CHECK(fault({}).starts_with("tool: name one of its commands: make, box\n"));
  CHECK(fault({"box"}).starts_with("tool box: name one of its commands: open, close\n"));
  CHECK(fault({"make"}).starts_with("tool make: --out is required\n"));
  CHECK(fault({"make", "--out", "x", "--size", "big"}).find("--size") != std::string::npos);
  CHECK(fault({"make", "--\x1b[2J"}).find('\x1b') == std::string::npos);
}

TEST_CASE("what a command throws is an error like any other") {
  CHECK(without_exceptions([] { return ok_status(); }).ok());
  const Status thrown =
      without_exceptions([]() -> Status { throw std::runtime_error("no such luck"); });
  REQUIRE_FALSE(thrown.ok());
  CHECK(thrown.error().message() == "no such luck");
  const Status full = without_exceptions([]() -> Status { throw std::bad_alloc(); });
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().message().find("out of memory") == 0);
}

}  // namespace starling::peer

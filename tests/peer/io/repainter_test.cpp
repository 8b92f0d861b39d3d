#include "peer/io/repainter.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace starling::peer {

TEST_CASE("a block is painted over the last one, line by line, and cut at the edge") {
  std::ostringstream out;
  Repainter painter(out);
  painter.paint("first line\nb\n", 5);
  CHECK(out.str() == "\x1b[2Kfirst\n\x1b[2Kb\n");
  out.str("");
  painter.paint("c\nd\n", 5);
  CHECK(out.str() == "\x1b[2A\x1b[2Kc\n\x1b[2Kd\n");
}

TEST_CASE("what a shorter block leaves of the last one is wiped out") {
  std::ostringstream out;
  Repainter painter(out);
  painter.paint("a\nb\nc\n", 80);
  out.str("");
  painter.paint("d\n", 80);
  CHECK(out.str() == "\x1b[3A\x1b[2Kd\n\x1b[J");
  out.str("");
  painter.clear();
  CHECK(out.str() == "\x1b[1A\x1b[J");
  out.str("");
  painter.paint("e\n", 80);
  CHECK(out.str() == "\x1b[2Ke\n");
}

TEST_CASE("a last line without line feed is a line") {
  std::ostringstream out;
  Repainter painter(out);
  painter.paint("a\nb", 80);
  CHECK(out.str() == "\x1b[2Ka\n\x1b[2Kb\n");
}

}  // namespace starling::peer

#include "peer/io/progress_bar.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

namespace starling::peer {

TEST_CASE("the line of a long job says how far, how fast and how long") {
  const std::string line = progress_line({.done = 1 << 20, .all = 4 << 20, .seconds = 2}, 100);
  CHECK(line == " 25% [#####               ] 1.00 MiB of 4.00 MiB  512 KiB/s  6 s left");
  CHECK(progress_line({.done = 5000, .all = 10'000, .seconds = 2, .unit = "tokens"}, 100) ==
        " 50% [##########          ] 5.00 k of 10.0 k tokens  2.50 k/s  2 s left");
  CHECK(progress_line({.done = 0, .all = 10, .seconds = 0}, 100).find("0%") == 2);
  CHECK(progress_line({.done = 0, .all = 0, .seconds = 0}, 100).find("left") == std::string::npos);
  CHECK(progress_line({.done = 1 << 20, .all = 4 << 20, .seconds = 2}, 12).size() == 12);
}

TEST_CASE("a bar paints now and then on a terminal, cleans up, and is silent anywhere else") {
  std::ostringstream terminal, file;
  const Instant start{};
  {
    ProgressBar bar(terminal, 80, start);
    for (int ms = 0; ms < 1000; ++ms) {
      bar.update(1, 2, start + std::chrono::milliseconds(ms));
    }
    ProgressBar silent(file, 0, start);
    silent.update(1, 2, start + std::chrono::seconds(9));
  }
  const std::string text = terminal.str();
  CHECK(std::count(text.begin(), text.end(), '%') == 3);
  CHECK(text.ends_with("\r\x1b[K"));
  CHECK(file.str().empty());
}

}  // namespace starling::peer

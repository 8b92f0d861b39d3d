#include "peer/io/human_text.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("numbers for people have three digits") {
  CHECK(human_bytes(0.0) == "0 B");
  CHECK(human_bytes(1023.0) == "1023 B");
  CHECK(human_bytes(std::uint64_t{1024}) == "1.00 KiB");
  CHECK(human_bytes(35.5 * 1024 * 1024) == "35.5 MiB");
  CHECK(human_bytes(2e18) == "1818989 TiB");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1000) == "1.00 k");
  CHECK(human_count(123'456) == "123 k");
  CHECK(counted(1, "peer") == "1 peer");
  CHECK(counted(0, "peer") == "0 peers");
  CHECK(time_left(40.2) == "40 s left");
  CHECK(time_left(720) == "12 min left");
  CHECK(time_left(4 * 3600) == "4.0 h left");
}

TEST_CASE("bytes that could drive a terminal are made visible") {
  CHECK(printable("a\x1b[2J\tb\n\x7f\xc3\xa9") == "a?[2J\tb\n?\xc3\xa9");
  CHECK(printable("\xc2\x9b"
                  "2J\xc2\xa0") == "??2J\xc2\xa0");  // CSI as UTF-8; a space
}

}  // namespace starling::peer

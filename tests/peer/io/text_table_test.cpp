#include "peer/io/text_table.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("a table's columns are as wide as what is in them, and rows may be shorter") {
  CHECK(text_table({{"", "one", "two"}, {"first", "1", "22222"}, {"x", "333"}}) ==
        "       one    two\n"
        "first    1  22222\n"
        "x      333\n");
  CHECK(text_table({}).empty());
}

}  // namespace starling::peer

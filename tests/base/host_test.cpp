#include "base/host.h"

#include <doctest/doctest.h>

#include <string_view>

namespace starling {

TEST_CASE("a host is a name or an IP literal, and nothing with a meaning to the transport") {
  for (const char* good : {"127.0.0.1", "peer-1.example.org", "a_b", "7", "fe80::1%eth0",
                           "2001:db8::7", "::ffff:10.0.0.7", "::"}) {
    CAPTURE(good);
    CHECK(valid_host(good));
  }
  for (const char* bad : {"",
                          "*",
                          "a b",
                          "a;b",
                          "a/b",
                          "[::1]",
                          "a\n",
                          "tcp://a",
                          "-",
                          "-a",
                          ".",
                          "_a",
                          "a:1",
                          "y.example.org%1:",
                          "::1%",
                          "::1%-",
                          "fe80::1%a%b",
                          "10.0.0.7%eth0",
                          ":::",
                          "1::2::3",
                          "%eth0"}) {
    CAPTURE(bad);
    CHECK(!valid_host(bad));
  }
  CHECK(!valid_host(std::string_view("::1\0x", 5)));
}

TEST_CASE("what has to be resolved is no literal") {
  for (const char* literal : {"127.0.0.1", "::1", "fe80::1%eth0"}) CHECK(is_ip_literal(literal));
  for (const char* name : {"example.org", "10.0.0", "1.2.3.4.5", "999.1.1.1", "7", "a::b.example",
                           "y.example.org%1:", "::1%"}) {
    CAPTURE(name);
    CHECK(!is_ip_literal(name));
  }
}

}  // namespace starling

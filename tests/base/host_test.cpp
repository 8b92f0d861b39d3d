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

TEST_CASE("an address tells from where it can be called") {
  for (const char* host : {"0.0.0.0", "::", "0:0::0", "0::", "::ffff:0.0.0.0", "0"}) {
    CAPTURE(host);
    CHECK(reach_of(host) == Reach::kUnspecified);
  }
  for (const char* host :
       {"127.0.0.1", "127.9.9.9", "127.1", "::1", "0:0::1", "localhost", "::ffff:127.0.0.1"}) {
    CAPTURE(host);
    CHECK(reach_of(host) == Reach::kThisMachine);
  }
  for (const char* host : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
                           "169.254.1.1", "fd00::1", "fe80::1"}) {
    CAPTURE(host);
    CHECK(reach_of(host) == Reach::kThisNetwork);
  }
  for (const char* host : {"9.9.9.9", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2001:db8::1"}) {
    CAPTURE(host);
    CHECK(reach_of(host) == Reach::kAnywhere);
  }
  for (const char* host : {"peer.example.org", "127.example.org", "0.example.org", ""}) {
    CAPTURE(host);
    CHECK(reach_of(host) == Reach::kUnknown);
  }
}

}  // namespace starling

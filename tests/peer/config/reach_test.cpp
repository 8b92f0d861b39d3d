#include "peer/config/reach.h"

#include <doctest/doctest.h>

namespace starling::peer {

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

}  // namespace starling::peer

#include <doctest/doctest.h>

#include "peer/config/config.h"
#include "tests/peer/config/config_texts.h"

namespace starling::peer {

TEST_CASE("what others are to call is an address that can be called") {
  for (const std::string listen : {"0.0.0.0:7701", "[::]:7701", "[0:0::0]:7701"}) {
    CAPTURE(listen);
    const std::string quoted = "\"" + listen + "\"";
    names_both({"gossip.listen=" + quoted, "trust.allow=keys"}, "gossip.listen",
               "gossip.advertise");
    const std::string advertised = error_of("", {"gossip.advertise=" + quoted});
    CHECK(contains(advertised, "gossip.advertise"));
    CHECK(contains(advertised, "none to call"));
    const std::string called = error_of("", {"gossip.seeds=" + seed(listen)});
    CHECK(contains(called, "gossip.seeds"));
    CHECK(contains(called, "none to call"));
  }
  CHECK(contains(error_of("", {"gossip.advertise=foo:0"}), "port 0"));
  CHECK(parse("", {"gossip.advertise=foo:1", "gossip.seeds=" + seed("127.0.0.1:1")}).ok());
}

TEST_CASE("who takes calls from other machines must say whose") {
  for (const std::string listen :
       {"192.0.2.1:7700", "eth0:7700", "[2001:db8::1]:7700", "127.example.org:1"}) {
    CAPTURE(listen);
    const std::string error = error_of("", {"gossip.listen=\"" + listen + "\""});
    for (const char* name : {"gossip.listen", "trust.allow", "trust.secret", "keygen"}) {
      CHECK(contains(error, name));
    }
    CHECK(parse("", {"gossip.listen=\"" + listen + "\"", "trust.allow=keys"}).ok());
    CHECK(parse("", {"gossip.listen=\"" + listen + "\"", "trust.secret=secret"}).ok());
    CHECK(parse("", {"gossip.listen=\"" + listen + "\"", "outer.method=local"}).ok());
  }
  for (const std::string listen :
       {"127.0.0.1:7700", "127.1.2.3:7700", "[::1]:7700", "localhost:1"}) {
    CHECK(parse("", {"gossip.listen=\"" + listen + "\""}).ok());
  }
}

TEST_CASE("a peer that does not listen needs somebody to call, and no address to be called at") {
  CHECK(parse("", {"gossip.listen=", "gossip.seeds=" + seed("a:1")}).ok());
  names_both({"gossip.listen="}, "gossip.listen", "gossip.seeds");
  names_both({"gossip.listen=", "gossip.advertise=a:1"}, "gossip.listen", "gossip.advertise");
}

TEST_CASE("a status page has a port that the peer's own link does not want") {
  const auto error = [](const std::string& page, std::vector<std::string> more = {}) {
    more.push_back("status.listen=\"" + page + "\"");
    return error_of("", std::move(more));
  };
  const std::string control = error("127.0.0.1:7700"), bulk = error("127.0.0.1:7701");
  CHECK(contains(control, "status.listen = 127.0.0.1:7700"));
  CHECK(contains(control, "gossip.listen = 127.0.0.1:7700"));
  CHECK(contains(bulk, "status.listen = 127.0.0.1:7701"));
  CHECK(contains(bulk, "gossip.bulk_port = 0"));
  CHECK(contains(error("127.0.0.1:7780", {"gossip.bulk_port=7780"}), "gossip.bulk_port = 7780"));
  // All addresses of a machine include each.
  const std::vector<std::string> everywhere{"gossip.listen=0.0.0.0:7700", "gossip.advertise=a:1",
                                            "trust.allow=keys"};
  CHECK(contains(error("0.0.0.0:7700"), "gossip.listen"));
  CHECK(contains(error("[::]:7701"), "gossip.bulk_port"));
  CHECK(contains(error("192.0.2.1:7701", everywhere), "gossip.bulk_port"));
  CHECK(error("[::1]:7700", everywhere).empty());
  for (const std::string page : {"127.0.0.1:7702", "127.0.0.2:7700", "[::1]:7701", "127.0.0.1:0"}) {
    CAPTURE(page);
    CHECK(error(page).empty());
  }
  // Nobody else listens.
  CHECK(error("127.0.0.1:7700", {"outer.method=local"}).empty());
  CHECK(error("127.0.0.1:7700", {"gossip.listen=127.0.0.1:0"}).empty());
  CHECK(error("127.0.0.1:7700", {"gossip.listen=", "gossip.seeds=" + seed("a:1")}).empty());
}

}  // namespace starling::peer

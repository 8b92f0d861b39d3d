#include "peer/watch/top.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "peer/status/status_server.h"

namespace starling::peer {

namespace {

class Server {
 public:
  Server() {
    auto opened = StatusServer::open({});
    REQUIRE(opened.ok());
    server_ = std::move(opened).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Server() {
    server_->stop();
    thread_.join();
  }
  StatusServer* operator->() { return server_.get(); }

 private:
  std::unique_ptr<StatusServer> server_;
  std::thread thread_;
};

struct Outcome {
  std::string out, error;
};

Outcome top(const std::string& address, bool json = false) {
  TopOptions options;
  options.address = address;
  options.json = json;
  options.size = [] { return TopSize{.columns = 0}; };  // no terminal: once
  std::ostringstream out;
  const Status status = run_top(options, out);
  return {out.str(), status.ok() ? "" : status.error().message()};
}

}  // namespace

TEST_CASE("top prints a report once where there is no terminal, for people or as JSON") {
  Server server;
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  CHECK(top(address).error.find("no report yet") != std::string::npos);
  server->publish({{"peer", "heron"}, {"phase", "training"}, {"device", "\xc2\x9b\x7f"}});
  for (const std::string& form : {address, "http://" + address, server->url()}) {
    CAPTURE(form);
    const Outcome shown = top(form);
    CHECK(shown.error.empty());
    CHECK(shown.out.starts_with("heron of -: training, step -"));
  }
  CHECK(top(address, true).out == R"({"device":"\u009b\u007f","peer":"heron","phase":"training"})"
                                  "\n");
}

TEST_CASE("the last port is as good as any other") {
  const std::string error = top("127.0.0.1:65535").error;  // nobody is there
  CHECK(error.find("127.0.0.1") != std::string::npos);
  CHECK(error.find("an address looks like") == std::string::npos);
}

TEST_CASE("an address that is none is told so") {
  for (const char* address : {"", "peer", "http://", "127.0.0.1:port", "::1:7780"}) {
    CAPTURE(std::string(address));
    CHECK(top(address).error.find("an address looks like") != std::string::npos);
  }
}

}  // namespace starling::peer

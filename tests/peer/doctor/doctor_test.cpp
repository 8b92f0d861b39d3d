#include "peer/doctor/doctor.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gossip/net/identity.h"
#include "peer/files/key_files.h"
#include "peer/files/run_folder.h"
#include "peer/files/token_shard.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using nlohmann::json;
using starling::testing::write_file;

namespace {

struct Outcome {
  std::string out, error;
};

// A configuration and a little data; alone, so that nobody is asked anything.
struct Node {
  Node() {
    auto writer = ShardWriter::create(folder / "0.tok",
                                      {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
    REQUIRE(writer.ok());
    REQUIRE(writer.value().append(std::vector<std::int32_t>(5000, 7)).ok());
    REQUIRE(writer.value().finish().ok());
    write_file(folder / "config.toml", "[outer]\nmethod = \"local\"\n");
    options.config = folder / "config.toml";
    options.overrides = {"run.folder=" + (folder / "runs").string(),
                         "data.train=[\"" + folder.path().string() + "\"]", "data.validation=[]",
                         "metrics.validate_every_steps=0"};
  }
  // Lets it take part in a swarm, which it joins through a peer of this key at a port.
  void join_through(const gossip::PublicKey& key, std::uint16_t port) {
    const std::string seed = gossip::to_string(key) + "@127.0.0.1:" + std::to_string(port);
    for (const std::string& set :
         {std::string("outer.method=pair-gossip"), std::string("gossip.listen=127.0.0.1:0"),
          std::string("status.listen="), "gossip.seeds=" + seed}) {
      options.overrides.push_back(set);
    }
    options.quick = true;
  }
  Outcome doctor() const {
    std::ostringstream out;
    const Status status = run_doctor(options, out);
    return {out.str(), status.ok() ? "" : status.error().message()};
  }
  ScratchFolder folder;
  DoctorOptions options;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sound node passes, and nothing is made on the way") {
  const Node node;
  const Outcome outcome = node.doctor();
  CHECK(outcome.error.empty());
  for (const char* part : {"configuration\n", "identity\n", "data\n", "this machine\n",
                           "trains alone", "0 checks failed"}) {
    CAPTURE(part);
    CHECK(contains(outcome.out, part));
  }
  CHECK(!contains(outcome.out, "FAILED"));
  CHECK(!std::filesystem::exists(node.folder / "runs"));
}

TEST_CASE("what is wrong is counted, and the rest is looked at all the same") {
  Node node;
  node.options.overrides.push_back("data.train=[\"/nowhere\"]");
  node.options.overrides.push_back("run.start=/nowhere/x.ckpt");
  const Outcome outcome = node.doctor();
  CHECK(outcome.error == "2 of the doctor's checks failed");
  CHECK(contains(outcome.out, "  FAILED   training: there is no /nowhere"));
  CHECK(contains(outcome.out, "-> starling prepare"));
  CHECK(contains(outcome.out, "this machine\n"));
}

TEST_CASE("a configuration that makes no sense ends it, with what the loader says") {
  Node node;
  node.options.overrides.push_back("batch.sequencs=4");
  const Outcome outcome = node.doctor();
  CHECK(outcome.error == "1 of the doctor's checks failed");
  CHECK(contains(outcome.out, "did you mean 'batch.sequences'?"));
  CHECK(!contains(outcome.out, "this machine\n"));
}

TEST_CASE("a script gets one line of JSON, and less of it is read if it is in a hurry") {
  Node node;
  node.options.json = true;
  node.options.quick = true;
  const Outcome outcome = node.doctor();
  REQUIRE(outcome.out.find('\n') == outcome.out.size() - 1);
  const json report = json::parse(outcome.out);
  CHECK(report["failed"] == 0);
  CHECK(contains(report.dump(), "headers read"));
  CHECK(report["groups"][0]["name"] == "configuration");
}

TEST_CASE("while the peer itself runs no seed is greeted, and there is nothing to mend") {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor seed(io, tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0));
  Node node;
  node.join_through(gossip::Identity::draw().key(), seed.local_endpoint().port());
  auto running = RunFolder::open({.root = node.folder / "runs", .run = "starling", .peer = "peer"});
  REQUIRE(running.ok());
  const Outcome outcome = node.doctor();
  CAPTURE(outcome.out);
  CHECK(contains(outcome.out, "greeting: not greeted: this peer runs as process "));
  CHECK(contains(outcome.out, "-> nothing: "));
  CHECK(contains(outcome.out, "ask the doctor again"));
  CHECK(!contains(outcome.out, "mend that first"));
}

TEST_CASE("a peer that is its own only seed is told that it calls nobody") {
  Node node;
  const std::filesystem::path key = node.folder / "key";
  auto own = load_or_make_identity(key);
  REQUIRE(own.ok());
  node.join_through(own.value().key(), 7700);
  node.options.overrides.push_back("trust.key=" + key.string());
  const Outcome outcome = node.doctor();
  CAPTURE(outcome.out);
  CHECK(contains(outcome.out, "  warning  seeds: gossip.seeds names nobody but this peer itself"));
  CHECK(contains(outcome.out, "starling keygen FILE"));
  CHECK(!contains(outcome.out, "seed " + gossip::to_string(own.value().key()).substr(0, 12)));
}

}  // namespace starling::peer

#include "peer/config/config.h"

#include <doctest/doctest.h>

#include "peer/config/config_keys.h"
#include "tests/peer/config/config_texts.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

namespace {

const std::filesystem::path kConfigs = STARLING_CONFIGS;

}  // namespace

TEST_CASE("an empty configuration is complete, and its derived values are filled in") {
  auto config = parse("");
  REQUIRE(config.ok());
  CHECK(config.value().run.total_tokens == config.value().run.tokens);
  CHECK(config.value().schedule.total_tokens == 1e6);
  CHECK(config.value().schedule.decay_start_tokens == doctest::Approx(8e5));
  auto long_warmup = parse("[schedule]\nwarmup_tokens = 9e5\n");
  REQUIRE(long_warmup.ok());
  CHECK(long_warmup.value().schedule.decay_start_tokens == 9e5);
}

TEST_CASE("the dump of a configuration loads to the same configuration") {
  auto config = parse(R"(
[run]
name = "a-run.1"
folder = "with \"quotes\" and \\ and \t"
seed = 9223372036854775807
tokens = 123456
total_tokens = 1e6
[model]
rope_theta = 12345.678
tied_head = false
[optimizer]
learning_rate = 0.00012345678901234567
beta2 = 0.987654
[schedule]
shape = "cosine"
warmup_tokens = 1
[outer]
method = "local"
wire_format = "mod4"
[gossip]
seeds = ["0000000000000001000000000000000000000000000000000000000000000000@a:1",
         "0000000000000001000000000000000000000000000000000000000000000000@[::1]:2"]
[data]
train = ["x", "y"]
[checkpoint]
resume = "required"
)");
  REQUIRE(config.ok());
  const std::string text = dump(config.value());
  auto again = parse(text);
  REQUIRE(again.ok());
  CHECK(dump(again.value()) == text);
  CHECK(again.value().run.folder == "with \"quotes\" and \\ and \t");
  CHECK(again.value().run.seed == 9223372036854775807U);
  CHECK(again.value().run.total_tokens == 1'000'000);
  CHECK(again.value().model.rope_theta == 12345.678F);
  CHECK(again.value().schedule.peak == 0.00012345678901234567);
  CHECK(again.value().outer.wire_format == optim::WireFormat::kMod4);
  CHECK(again.value().gossip.seeds == std::vector<std::string>{seed("a:1"), seed("[::1]:2")});
  CHECK(again.value().checkpoint.resume == Resume::kRequired);
}

TEST_CASE("an unknown key is an error with file, line and the nearest known key") {
  CHECK(error_of("[gossip]\n\nping_intervall_ms = 5\n") ==
        "test.toml:3: unknown key 'gossip.ping_intervall_ms'; did you mean "
        "'gossip.ping_interval_ms'?");
  CHECK(contains(error_of("[batch]\nlearning_rate = 1\n"), "did you mean"));
  CHECK(contains(error_of("[optimiser]\nbeta1 = 0\n"), "'optimiser'; did you mean 'optimizer'?"));
  CHECK(contains(error_of("listen = \"a:1\"\n"), "'listen'; did you mean 'gossip.listen'?"));
  const std::string far = error_of("[run]\nxyzzy_quux_plugh_42 = 1\n");
  CHECK(
      contains(far, "test.toml:2: unknown key 'run.xyzzy_quux_plugh_42'; its section has name, "));
  CHECK(contains(error_of("[gossip]\nxyzzy_quux_plugh_42 = 1\n"), "'starling config' describes"));
  CHECK(contains(error_of("[status]\nport = 1\n"), "'status.port'; its section has listen"));
  CHECK(!contains(far, "did you mean"));
}

TEST_CASE("a key that is nearly right is looked for in its own section first") {
  const std::vector<std::pair<std::string, std::string>> meant{
      {"gossip.seed", "gossip.seeds"},
      {"data.seeds", "data.seed"},
      {"checkpoint.every", "checkpoint.every_steps"},
      {"model.vocab", "model.vocabulary"},
      {"schedule.tokens", "schedule.total_tokens"},
      {"data.training", "data.train"},
      {"outer.steps", "outer.steps_per_round"},
      {"model.widht", "model.width"},
      // Of another section by its right name, or nearly.
      {"run.threads", "device.threads"},
      {"run.keep", "checkpoint.keep"},
      {"batch.learning_rat", "optimizer.learning_rate"}};
  for (const auto& [key, known] : meant) {
    CAPTURE(key);
    CHECK(nearest_key(key) == known);
  }
  // Two letters of five are too many to be sure, and so are the few of a beginning.
  for (const char* key : {"run.steps", "run.se", "gossip.ms", "outer.lr", "run."}) {
    CAPTURE(std::string(key));
    CHECK(nearest_key(key).empty());
  }
  CHECK(
      contains(error_of("[run]\nsteps = 5\n"), "unknown key 'run.steps'; its section has name, "));
}

TEST_CASE("a wrong type is an error that says what is wanted") {
  CHECK(contains(error_of("[run]\ntokens = \"many\"\n"),
                 "test.toml:2: 'run.tokens' is a string, but must be an integer"));
  CHECK(contains(error_of("[run]\ntokens = 1.5\n"), "must be an integer"));
  CHECK(contains(error_of("[run]\nname = 5\n"), "'run.name' is an integer, but must be a string"));
  CHECK(contains(error_of("[model]\ntied_head = 1\n"), "must be true or false"));
  CHECK(contains(error_of("[gossip]\nseeds = [1]\n"), "must be an array of strings"));
  CHECK(contains(error_of("[schedule]\nshape = 1\n"), "must be one of \"constant\""));
  CHECK(contains(error_of("run = 5\n"), "'run' must be a section"));
}

TEST_CASE("a value out of range is an error that names the range") {
  CHECK(contains(error_of("[model]\nlayers = 0\n"),
                 "test.toml:2: 'model.layers' is 0; allowed are 1 to 1024"));
  CHECK(contains(error_of("[optimizer]\nbeta1 = 1.0\n"), "allowed are 0 to 0.9999"));
  CHECK(contains(error_of("[optimizer]\nbeta1 = nan\n"), "allowed are"));
  CHECK(contains(error_of("[gossip]\nbulk_port = 70000\n"), "allowed are 0 to 65535"));
  CHECK(contains(error_of("[gossip]\nlocality = 0.6\n"),
                 "test.toml:2: 'gossip.locality' is 0.6; allowed are 0 to 0.5"));
  CHECK(contains(error_of("[gossip]\nlocality = -0.1\n"), "allowed are 0 to 0.5"));
  CHECK(contains(error_of("[gossip]\nlocality = nan\n"), "allowed are 0 to 0.5"));
  CHECK(contains(error_of("[outer]\nwire_format = \"int8\"\n"),
                 "which is none of \"f32\", \"bf16\", \"mod8\", \"mod6\", \"mod5\", \"mod4\""));
  CHECK(contains(error_of("[run]\nname = \"\"\n"), "allowed are 1 to 64"));
}

TEST_CASE("what the backward computes again is named") {
  CHECK(parse("").value().recompute == RecomputeChoice::kAuto);
  const PeerConfig blocks = parse("[batch]\nrecompute = \"blocks\"\n").value();
  CHECK(blocks.recompute == RecomputeChoice::kBlocks);
  CHECK(parse(dump(blocks)).value().recompute == RecomputeChoice::kBlocks);
  CHECK(contains(error_of("[batch]\nrecompute = \"all\"\n"), "batch.recompute"));
}

TEST_CASE("the part of a batch that is computed at a time is a number or auto") {
  CHECK(!parse("").value().micro_batch);
  CHECK(!parse("[batch]\nmicro = \"auto\"\n").value().micro_batch);
  const PeerConfig two = parse("[batch]\nmicro = 2\n").value();
  CHECK(two.micro_batch == 2);
  CHECK(parse(dump(two)).value().micro_batch == 2);
  CHECK(!parse("[batch]\nmicro = 2\n", {"batch.micro=auto"}).value().micro_batch);
  CHECK(contains(error_of("[batch]\nmicro = 0\n"), "allowed are 1 to 65535"));
  CHECK(contains(error_of("[batch]\nsequences = 65536\n"), "batch.sequences"));
  CHECK(contains(error_of("[batch]\nmicro = 2.5\n"), "must be an integer"));
  CHECK(contains(error_of("[batch]\nmicro = \"all\"\n"), "must be \"auto\" or an integer"));
}

TEST_CASE("all that is wrong is told at once") {
  const std::string message = error_of("[run]\ntokens = 0\n[model]\nwidht = 5\n");
  CHECK(contains(message, "test.toml:2: 'run.tokens'"));
  CHECK(contains(message, "\ntest.toml:4: unknown key 'model.widht'"));
}

TEST_CASE("a file that is not TOML is an error with its line") {
  CHECK(contains(error_of("[run]\nname = \n"), "test.toml:2"));
}

TEST_CASE("what is set on the command line may look like a number and be a name") {
  for (const std::string name : {"1", "2024", "nan", "true", "2024-01-01", "1e3", "0x1F"}) {
    CAPTURE(name);
    auto config = parse("", {"run.peer_name=" + name, "data.train=" + name});
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    CHECK(config.value().run.peer_name == name);
    CHECK(config.value().data.train == std::vector<std::string>{name});
  }
  CHECK(contains(error_of("", {"run.peer_name=[1]"}), "must be a string"));
  CHECK(contains(error_of("[run]\npeer_name = 1\n"), "must be a string"));
}

TEST_CASE("a small model has by default no more fragments than it can be cut into") {
  const auto fragments = [](std::vector<std::string> overrides) {
    auto config = parse_config("", "test.toml", overrides);
    REQUIRE_MESSAGE(config.ok(), error_of("", overrides));
    return config.value().outer.rounds.fragments;
  };
  CHECK(fragments({"model.layers=1"}) == 2);
  CHECK(fragments({"model.layers=3"}) == 4);
  CHECK(fragments({"model.layers=4"}) == 5);
  CHECK(fragments({"model.layers=40"}) == 5);
  CHECK(fragments({"outer.fragments=2", "model.layers=40"}) == 2);
}

TEST_CASE("an outer method brings its authors' defaults, and what is set wins over them") {
  const auto outer = [](std::string_view text, std::vector<std::string> overrides = {}) {
    auto config = parse_config(text, "test.toml", overrides, ConfigUse::kSimulate);
    REQUIRE(config.ok());
    CHECK(parse_config(dump(config.value()), "dump", {}, ConfigUse::kSimulate).ok());
    return config.value().outer;
  };
  const OuterSettings diloco = outer("[outer]\nmethod = \"diloco\"\n");
  CHECK(diloco.rule.momentum == 0.9f);
  CHECK(diloco.rule.learning_rate == 0.7f);
  CHECK(diloco.rounds.steps_per_round == 500);
  CHECK(diloco.rounds.fragments == 1);
  const OuterSettings ours = outer("");
  CHECK(ours.rule.momentum == 0.0f);
  CHECK(ours.rule.learning_rate == 1.0f);
  CHECK(ours.rule.gain == 2.0f);
  CHECK(ours.rounds.steps_per_round == 50);
  const OuterSettings set =
      outer("[outer]\nmomentum = 0.3\n", {"outer.method=noloco", "outer.group_pull=0.25"});
  CHECK(set.rule.method == optim::OuterMethod::kNoloco);
  CHECK(set.rule.momentum == 0.3f);
  CHECK(set.rule.group_pull == 0.25f);
  CHECK(set.rounds.steps_per_round == 50);
  CHECK(outer("[outer]\nmethod = \"push-sum\"\n").rounds.steps_per_round == 1);
}

TEST_CASE("a peer is told which outer methods it cannot run") {
  CHECK(contains(error_of("[outer]\nmethod = \"diloco\"\n"),
                 "a peer runs \"pair-gossip\" or \"local\"; the other methods run in 'starling "
                 "simulate' only"));
  CHECK(contains(error_of("[outer]\nmethod = \"nesterov\"\n"), "\"streaming-diloco\""));
}

TEST_CASE("outer settings that diverge or contradict each other are refused by name") {
  const auto error = [](std::vector<std::string> overrides) {
    auto config = parse_config("", "test.toml", overrides, ConfigUse::kSimulate);
    return config.ok() ? std::string() : config.error().message();
  };
  CHECK(contains(error({"outer.method=noloco", "outer.momentum=0.9"}), "below 0.38"));
  CHECK(contains(error({"outer.method=all-reduce", "outer.steps_per_round=2"}),
                 "outer.steps_per_round = 2 must be 1"));
  CHECK(contains(error({"outer.method=streaming-diloco", "outer.overlap_steps=100"}),
                 "outer.overlap_steps = 100 must be below outer.steps_per_round = 100"));
  CHECK(contains(error({"outer.learning_rate=3"}), "below 2 = 2 (1 + momentum)"));
  CHECK(contains(error({"outer.clip_factor=0.5"}), "clip_factor = 0.5 must be at least 1, or 0"));
}

TEST_CASE("overrides follow the same rules as the file, and win") {
  auto config =
      parse("[run]\ntokens = 5000\npeer_name = \"x\"\n",
            {"run.tokens=2e5", "run.peer_name=peer-7", "data.train=some/folder",
             "gossip.seeds=[\"" + seed("a:1") + "\",\"" + seed("b:2") + "\"]",
             "model.tied_head=false", "optimizer.learning_rate = 1e-4", "run.tokens=300000"});
  REQUIRE(config.ok());
  CHECK(config.value().run.tokens == 300'000);
  CHECK(config.value().run.peer_name == "peer-7");
  CHECK(config.value().data.train == std::vector<std::string>{"some/folder"});
  CHECK(config.value().gossip.seeds.size() == 2);
  CHECK(!config.value().model.tied_head);
  CHECK(config.value().schedule.peak == 1e-4);

  CHECK(contains(error_of("", {"run.token=5"}),
                 "--set run.token=5: unknown key 'run.token'; did you mean 'run.tokens'?"));
  CHECK(contains(error_of("", {"run.tokens=many"}), "must be an integer"));
  CHECK(contains(error_of("", {"run.tokens"}), "section.key=value"));
  CHECK(contains(error_of("", {"tokens=5"}), "section.key=value"));
  CHECK(contains(error_of("", {"run.!=x"}), "is not section.key=value"));
}

TEST_CASE("an override that is no TOML is a string, whatever is in it") {
  const std::string odd = "/srv/o'brien/\"a\\b";
  auto config = parse("", {"run.folder=" + odd});
  REQUIRE(config.ok());
  CHECK(config.value().run.folder == odd);
}

TEST_CASE("an override with more digits than an integer has is told as that") {
  CHECK(
      contains(error_of("", {"run.tokens=99999999999999999999"}), "no number has so many digits"));
}

TEST_CASE("clashes between fields are errors that name both") {
  names_both({"model.heads=3"}, "model.width", "model.heads");
  CHECK(error_of("", {"model.heads=3"}).starts_with("test.toml with --set: "));
  CHECK(error_of("[model]\nheads = 3\n").starts_with("test.toml: "));
  names_both({"batch.micro=3"}, "batch.micro", "batch.sequences");
  names_both({"batch.tokens=256"}, "batch.tokens", "model.context");
  names_both({"run.tokens=1000"}, "run.tokens", "batch.sequences");
  names_both({"run.total_tokens=5"}, "run.total_tokens", "run.tokens");
  names_both({"outer.fragments=6"}, "outer.fragments", "model.layers");
  names_both({"outer.steps_per_round=4"}, "outer.fragments", "outer.steps_per_round");
  names_both({"schedule.warmup_tokens=9e5", "schedule.decay_start_tokens=8e5"},
             "schedule.warmup_tokens", "schedule.decay_start_tokens");
  names_both({"schedule.shape=cosine", "schedule.warmup_tokens=2e6"}, "schedule.warmup_tokens",
             "schedule.total_tokens");
  names_both({"schedule.decay_start_tokens=2e6"}, "schedule.decay_start_tokens",
             "schedule.total_tokens");
  names_both({"gossip.suspect_after_ms=500"}, "gossip.suspect_after_ms", "gossip.ping_interval_ms");
  names_both({"gossip.window=20", "gossip.slots=32"}, "gossip.slots", "gossip.window");
  names_both({"gossip.bulk_port=7700"}, "gossip.bulk_port", "gossip.listen");
  names_both({"gossip.listen=0.0.0.0:7700"}, "gossip.listen", "gossip.advertise");
  CHECK(contains(error_of("", {"data.train=[]"}), "data.train"));
  CHECK(contains(error_of("", {"run.peer_name=../x"}), "run.peer_name"));
  CHECK(contains(error_of("", {"gossip.seeds=nowhere"}), "gossip.seeds"));
  CHECK(contains(error_of("", {"gossip.seeds=a:1"}), "does not begin with a key"));
  CHECK(contains(error_of("", {"gossip.seeds=" + seed("a:0")}), "port 0"));
  CHECK(contains(error_of("", {"gossip.advertise=nowhere"}), "gossip.advertise"));
}

TEST_CASE("durations and formats reach the protocol core unchanged") {
  auto config =
      parse("", {"gossip.ping_interval_ms=250", "outer.wire_format=mod4", "outer.mixing=0.25",
                 "gossip.window=2", "gossip.connections_max=12", "gossip.locality=0.25",
                 "relay.volunteer=true", "relay.use=false", "relay.holders=5"});
  REQUIRE(config.ok());
  const gossip::GossipConfig core = gossip_config(config.value());
  CHECK(core.ping_interval == std::chrono::milliseconds(250));
  CHECK(core.format == static_cast<std::uint8_t>(optim::WireFormat::kMod4));
  CHECK(core.cold_format == static_cast<std::uint8_t>(optim::WireFormat::kBf16));
  CHECK(core.mixing == 0.25F);
  CHECK(core.window == 2);
  CHECK(core.connections_max == 12);
  CHECK(core.locality == 0.25);
  CHECK(core.relay.volunteer);
  CHECK(!core.relay.use);
  CHECK(core.relay.holders_max == 5);
}

TEST_CASE("the words for wire formats are those of the codec") {
  for (const auto format : optim::kWireFormats) {
    const std::string word(optim::to_string(format));
    CAPTURE(word);
    auto config = parse("", {"outer.wire_format=" + word});
    REQUIRE(config.ok());
    CHECK(config.value().outer.wire_format == format);
  }
}

TEST_CASE("every configuration file of the repository loads") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".toml") continue;
    if (entry.path().filename() == "plan.toml") continue;  // describes machines
    CAPTURE(entry.path().string());
    // Two wait for a key, and say so.
    const bool unfilled = entry.path().filename().string().starts_with("two-machines");
    if (unfilled) {
      auto unready = load_config(entry.path(), {});
      REQUIRE(!unready.ok());
      CHECK(contains(unready.error().message(), "KEY-OF-MACHINE"));
    }
    auto config = load_config(entry.path(), unfilled ? std::vector<std::string>{"gossip.seeds=[]"}
                                                     : std::vector<std::string>{});
    if (!config.ok()) FAIL_CHECK(config.error().message());
    ++count;
  }
  CHECK(count >= 4);
}

TEST_CASE("a status page has an address of its own, or none") {
  CHECK(parse("", {"status.listen="}).ok());
  CHECK(parse("", {"status.listen=[::1]:65535"}).ok());
  CHECK(parse("", {"status.listen=127.0.0.1:0"}).ok());
  for (const char* listen : {"7780", "127.0.0.1:http", "127.0.0.1:70000", ":7780"}) {
    CAPTURE(std::string(listen));
    CHECK(contains(error_of("", {std::string("status.listen=\"") + listen + "\""}),
                   "status.listen: "));
  }
}

TEST_CASE("the tour of all keys is what the program itself prints") {
  // If this fails: build/dev/peer/starling config > configs/peer.toml
  CHECK(starling::testing::read_file(kConfigs / "peer.toml") == describe_config());
}

TEST_CASE("the description of all keys is itself a configuration, namely the default") {
  auto described = parse(describe_config());
  REQUIRE(described.ok());
  auto empty = parse("");
  REQUIRE(empty.ok());
  CHECK(dump(described.value()) == dump(empty.value()));
  for (const std::string& key : config_keys()) {
    CAPTURE(key);
    CHECK(contains(describe_config(), "\n" + key.substr(key.find('.') + 1) + " = "));
  }
}

TEST_CASE("an absent configuration file is an error with its name") {
  auto config = load_config("/nowhere/x.toml", {});
  REQUIRE(!config.ok());
  CHECK(config.error().code() == ErrorCode::kNotFound);
  CHECK(contains(config.error().message(), "/nowhere/x.toml"));
}

}  // namespace starling::peer

#include "peer/doctor/doctor_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "gossip/public_key.h"
#include "peer/files/key_files.h"
#include "peer/files/run_folder.h"
#include "peer/roles/role_settings.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/model_samples.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

namespace {

bool says(const Finding& finding, std::string_view what) {
  return (finding.text + finding.remedy).find(what) != std::string::npos;
}

void write_shard(const std::filesystem::path& path, std::string tokenizer = "bytes") {
  std::filesystem::create_directories(path.parent_path());
  auto writer = ShardWriter::create(
      path, {.token_bytes = 2, .vocabulary = 256, .tokenizer = std::move(tokenizer)});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<std::int32_t>(5000, 7)).ok());
  REQUIRE(writer.value().finish().ok());
}

struct Home {
  Home() {
    config.run.folder = (folder / "runs").string();
    config.data.train = {(folder / "train").string()};
    config.data.validation = {(folder / "validation").string()};
    config.model.vocabulary = 256;
  }
  ScratchFolder folder;
  PeerConfig config;
};

}  // namespace

TEST_CASE("a key is told, or how one is made, and none is made") {
  Home home;
  std::optional<gossip::Identity> identity;
  const Finding none = check_key(home.config, identity);
  CHECK(none.verdict == Verdict::kWarning);
  CHECK(says(none, "starling keygen " + (home.folder / "runs").string()));
  CHECK(!identity);
  CHECK(!std::filesystem::exists(home.folder / "runs"));
  home.config.trust.key = (home.folder / "key").string();
  const auto made = load_or_make_identity(home.config.trust.key).value();
  const Finding known = check_key(home.config, identity);
  CHECK(known.verdict == Verdict::kOk);
  CHECK(says(known, gossip::to_string(made.key())));
  REQUIRE(identity);
  CHECK(identity->key() == made.key());
  REQUIRE(::chmod(home.config.trust.key.c_str(), 0644) == 0);
  const Finding open = check_key(home.config, identity);
  CHECK(open.verdict == Verdict::kFailed);
  CHECK(says(open, "chmod 600"));
}

TEST_CASE("the allow-list must name this peer's seeds, and need not name this peer") {
  Home home;
  const auto own = gossip::Identity::draw();
  const auto seed = gossip::Identity::draw();
  const std::string list = (home.folder / "allow").string();
  CHECK(check_trust(home.config, nullptr).front().verdict == Verdict::kOk);
  home.config.trust.allow = list;
  CHECK(check_trust(home.config, &own.key()).front().verdict == Verdict::kFailed);
  write_file(list, "# nobody yet\n");
  const Finding nobody = check_trust(home.config, &own.key()).front();
  CHECK(nobody.verdict == Verdict::kWarning);
  CHECK(says(nobody, "no key in " + list));
  write_file(list, gossip::to_string(seed.key()) + "\n");
  const Finding without = check_trust(home.config, &own.key()).front();
  CHECK(without.verdict == Verdict::kOk);
  CHECK(says(without, "1 key in " + list + "; this peer's own"));
  CHECK(check_trust(home.config, nullptr).front().verdict == Verdict::kOk);  // not known yet
  write_file(list, gossip::to_string(own.key()) + "\n");
  CHECK(check_trust(home.config, &own.key()).front().verdict == Verdict::kOk);
  home.config.gossip.seeds = {gossip::to_string(seed.key()) + "@10.0.0.1:7700"};
  const Finding strange = check_trust(home.config, &own.key()).front();
  CHECK(strange.verdict == Verdict::kFailed);
  CHECK(says(strange, "echo '" + gossip::to_string(seed.key())));
}

TEST_CASE("a secret that cannot be used is told beside the allow-list") {
  Home home;
  home.config.trust.secret = (home.folder / "secret").string();
  CHECK(says(check_trust(home.config, nullptr).front(), "starling keygen --secret"));
  REQUIRE(make_secret_file(home.config.trust.secret).ok());
  CHECK(check_trust(home.config, nullptr).front().verdict == Verdict::kOk);
}

TEST_CASE("a run folder in use, or from the future, is told") {
  Home home;
  const std::uint64_t now = incarnation_now(), hour = std::uint64_t{3600} << 8;
  CHECK(check_folder(home.config, now).verdict == Verdict::kOk);
  const RunFolderNames names{home.folder / "runs", home.config.run.name, home.config.run.peer_name};
  {
    auto open = RunFolder::open(names);
    REQUIRE(open.ok());
    const Finding used = check_folder(home.config, now + hour);
    CHECK(used.verdict == Verdict::kWarning);
    CHECK(says(used, "run.peer_name"));
  }
  CHECK(check_folder(home.config, now + hour).verdict == Verdict::kOk);
  CHECK(says(check_folder(home.config, now - hour), "s ahead of this clock"));
  write_file(names.path() / "peer.json", "{");
  CHECK(check_folder(home.config, now).verdict == Verdict::kFailed);
}

TEST_CASE("data is told by its digest, and damage in it unless only headers are read") {
  Home home;
  CHECK(says(check_data(home.config, ShardCheck::kWhole).front(), "starling prepare"));
  write_shard(home.folder / "train/0.tok");
  write_shard(home.folder / "validation/0.tok");
  const auto sound = check_data(home.config, ShardCheck::kWhole);
  REQUIRE(sound.size() == 3);
  for (const Finding& finding : sound) CHECK(finding.verdict == Verdict::kOk);
  CHECK(says(sound[0], "digest "));
  CHECK(says(sound[2], "'bytes', 256 tokens"));
  std::string bytes = read_file(home.folder / "train/0.tok");
  bytes[bytes.size() / 2] ^= 1;
  write_file(home.folder / "train/0.tok", bytes);
  const Finding damaged = check_data(home.config, ShardCheck::kWhole).front();
  CHECK(damaged.verdict == Verdict::kFailed);
  CHECK(says(damaged, "0.tok"));
  CHECK(check_data(home.config, ShardCheck::kHeader).front().verdict == Verdict::kOk);
  home.config.model.vocabulary = 100;
  CHECK(says(check_data(home.config, ShardCheck::kHeader).front(), "model.vocabulary"));
}

TEST_CASE("data of two tokenizers, or of one that is lost, is told") {
  Home home;
  write_shard(home.folder / "train/0.tok", "bpe-0123456789abcdef");
  write_shard(home.folder / "validation/0.tok");
  CHECK(check_data(home.config, ShardCheck::kWhole).back().verdict == Verdict::kFailed);
  home.config.data.validation.clear();
  const Finding lost = check_data(home.config, ShardCheck::kWhole).back();
  CHECK(lost.verdict == Verdict::kWarning);
  CHECK(says(lost, "bpe-0123456789abcdef"));
}

TEST_CASE("that there is no checkpoint is well unless one is required") {
  Home home;
  const CheckpointDigests digests{};
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kOk);
  home.config.checkpoint.resume = Resume::kRequired;
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kFailed);
  home.config.checkpoint.resume = Resume::kNever;
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kOk);
  home.config.checkpoint.resume = Resume::kAuto;
  home.config.checkpoint.folder = home.folder.path().string();
  write_file(home.folder / "00000000000000000007.ckpt", "damaged");
  const Finding lost = check_checkpoint(home.config, digests);
  CHECK(lost.verdict == Verdict::kFailed);
  CHECK(says(lost, "00000000000000000007.ckpt"));
  home.config.gossip.seeds = {"KEY@192.0.2.1:7700"};  // who have the weights
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kWarning);
}

TEST_CASE("what training would go on from is looked for behind what is damaged") {
  Home home;
  home.config.checkpoint.folder = home.folder.path().string();
  home.config.outer.rule.method = optim::OuterMethod::kLocal;
  auto bytes = starling::testing::SampleCheckpoint(8).encoded();
  write_file(home.folder / "00000000000000000008.ckpt",
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  write_file(home.folder / "00000000000000000009.ckpt", "damaged");
  const Finding other = check_checkpoint(home.config, {});  // which is of another model
  CHECK(other.verdict == Verdict::kFailed);
  CHECK(says(other, "00000000000000000008.ckpt belongs to"));
  const Finding found = check_checkpoint(home.config, starling::testing::kDigests);
  CHECK(found.verdict == Verdict::kWarning);
  CHECK(says(found, "00000000000000000009.ckpt: "));
  CHECK(says(found, "goes on from"));
}

TEST_CASE("a training whose checkpoints were all given up does not begin anew unasked") {
  Home home;
  home.config.checkpoint.folder = home.folder.path().string();
  write_file(home.folder / "00000000000000000008.ckpt.bad", "damaged");
  home.config.outer.rule.method = optim::OuterMethod::kLocal;
  const Finding alone = check_checkpoint(home.config, {});
  CHECK(alone.verdict == Verdict::kFailed);
  CHECK(says(alone, "none of 1 checkpoint"));
  home.config.outer.rule.method = optim::OuterMethod::kPairGossip;
  home.config.gossip.seeds = {"KEY@192.0.2.1:7700"};
  CHECK(check_checkpoint(home.config, {}).verdict == Verdict::kWarning);
}

TEST_CASE("checkpoints on a disk that is not there are missed") {
  Home home;
  home.config.checkpoint.folder = (home.folder / "disk").string();
  home.config.gossip.seeds.clear();
  auto run = RunFolder::open(run_folder_names(home.config));
  REQUIRE(run.ok());
  REQUIRE(run.value().note_start(dump(home.config), false).ok());
  const CheckpointDigests digests{.run = 1, .model = 2, .layout = 3};
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kOk);
  write_file(run.value().events(), R"({"event":"checkpoint","seconds":9,"folder":")" +
                                       home.config.checkpoint.folder + "\"}\n");
  const Finding missed = check_checkpoint(home.config, digests);
  CHECK(missed.verdict == Verdict::kFailed);
  CHECK(missed.text.find("is that disk mounted?") != std::string::npos);
  home.config.gossip.seeds = {"KEY@192.0.2.1:7700"};  // who have the weights
  CHECK(check_checkpoint(home.config, digests).verdict == Verdict::kWarning);
}

TEST_CASE("a checkpoint of a run without exchanges is none to exchange from") {
  Home home;
  home.config.checkpoint.folder = home.folder.path().string();
  const auto bytes = starling::testing::SampleCheckpoint(8).encoded();  // no outer sections
  write_file(home.folder / "00000000000000000008.ckpt",
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Finding exchanging = check_checkpoint(home.config, starling::testing::kDigests);
  CHECK(exchanging.verdict == Verdict::kFailed);
  CHECK(says(exchanging, "outer.method"));
  home.config.outer.rule.method = optim::OuterMethod::kLocal;
  CHECK(check_checkpoint(home.config, starling::testing::kDigests).verdict == Verdict::kOk);
}

TEST_CASE("a checkpoint of another seed is found before a start would be refused for it") {
  const ScratchFolder folder;
  write_drawn(folder, "00000000000000000001.ckpt", 3);
  PeerConfig config = small_config();
  config.checkpoint.folder = folder.path().string();
  config.outer.rule.method = optim::OuterMethod::kLocal;
  const CheckpointDigests digests{.layout =
                                      model::ParamLayout::plan(config.model, 2).value().digest()};
  CHECK(!says(check_checkpoint(config, digests), "run.seed"));
  config.run.seed = 2;
  const Finding drawn = check_checkpoint(config, digests);
  CHECK(drawn.verdict == Verdict::kFailed);
  CHECK(says(drawn, "run.seed is 1 there, 2 here"));
}

TEST_CASE("a newest checkpoint that training would stop at is no mere warning") {
  Home home;
  home.config.checkpoint.folder = home.folder.path().string();
  std::filesystem::create_directory(home.folder / "00000000000000000007.ckpt");  // unreadable
  const Finding unreadable = check_checkpoint(home.config, {});
  CHECK(unreadable.verdict == Verdict::kFailed);
  CHECK(says(unreadable, "readable"));
  auto bytes = starling::testing::SampleCheckpoint(8).encoded();
  bytes[8] = std::byte{1};  // the version
  write_file(home.folder / "00000000000000000008.ckpt",
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Finding other = check_checkpoint(home.config, {});
  CHECK(other.verdict == Verdict::kFailed);
  CHECK(says(other, "version 1"));
}

}  // namespace starling::peer

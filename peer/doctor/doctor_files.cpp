#include "peer/doctor/doctor_files.h"

#include <fmt/format.h>

#include <utility>

#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/key_files.h"
#include "peer/files/run_folder.h"
#include "peer/files/stored_model.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/human_text.h"
#include "peer/roles/role_settings.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

Finding check_allow_list(const PeerConfig& config, const gossip::PublicKey* own) {
  const std::string& file = config.trust.allow;
  auto list = load_allow_list(file);
  if (!list.ok()) {
    return failed("allow-list", list.error().message(),
                  "a key a line, as it says, or set trust.allow to another file");
  }
  for (const std::string& seed : config.gossip.seeds) {
    const auto key = gossip::parse_public_key(seed.substr(0, seed.find('@')));
    if (!key || list.value().contains(*key) || (own != nullptr && *key == *own)) continue;
    return failed("allow-list",
                  fmt::format("the seed {} is not in {}: this peer would refuse it", seed, file),
                  fmt::format("echo '{}' >> {}", seed.substr(0, seed.find('@')), file));
  }
  if (list.value().size() == 0) {
    return doubtful("allow-list",
                    fmt::format("there is no key in {}: nobody may exchange with this peer", file),
                    "a key a line, as 'starling keygen FILE' tells each peer's");
  }
  const bool others = own != nullptr && !list.value().contains(*own);
  return good(
      "allow-list",
      fmt::format(
          "{} key{} in {}{}", list.value().size(), list.value().size() == 1 ? "" : "s", file,
          others ? "; this peer's own is not among them, and need be in those of others only"
                 : ""));
}

Finding check_secret(const std::string& file) {
  auto secret = load_secret(file);
  if (secret.ok()) return good("secret", file);
  return failed("secret", secret.error().message(),
                "do as it says, or set trust.secret to the file that all peers of the swarm share");
}

std::string remedy_of_data(const Error& error, std::string_view key) {
  switch (error.code()) {
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
      return fmt::format("starling prepare TEXT --out DIR, and {} = [\"DIR/...\"]", key);
    case ErrorCode::kIncompatible: return fmt::format("model.vocabulary, or other data in {}", key);
    default: return fmt::format("{}, or batch.tokens", key);
  }
}

struct Split {
  std::string_view check, key;
  const std::vector<std::string>& paths;
};

Finding check_split(const Split& split, const PeerConfig& config, ShardCheck check,
                    std::string& tokenizer) {
  auto data = Dataset::open(
      split.paths, {.vocabulary = config.model.vocabulary, .tokens = config.batch.tokens}, check);
  if (!data.ok()) {
    return failed(std::string(split.check), data.error().message(),
                  remedy_of_data(data.error(), split.key));
  }
  const Dataset& set = data.value();
  tokenizer = set.tokenizer();
  return good(std::string(split.check),
              fmt::format("{} tokens in {} shard{}, digest {:016x}, {}",
                          human_count(static_cast<double>(set.tokens())), set.shards(),
                          set.shards() == 1 ? "" : "s", set.digest(),
                          check == ShardCheck::kWhole ? "every byte read" : "headers read"));
}

Finding check_tokenizer(const PeerConfig& config, const std::string& training,
                        const std::string& validation) {
  if (!validation.empty() && training != validation) {
    return failed(
        "tokenizer",
        fmt::format("data.train was made by '{}', data.validation by '{}'", training, validation),
        "starling prepare both with the same --tokenizer");
  }
  auto found = tokenizer_of_shards(config.data.train);
  if (!found.ok()) {
    return doubtful("tokenizer", found.error().message(),
                    "put the file there: training needs it not, but nobody can read what the model "
                    "writes");
  }
  return good("tokenizer",
              fmt::format("'{}', {} tokens; model.vocabulary is {}", training,
                          found.value().tokenizer->vocabulary(), config.model.vocabulary));
}

}  // namespace

Finding check_key(const PeerConfig& config, std::optional<gossip::Identity>& identity) {
  const fs::path file = key_file(config);
  auto loaded = load_identity(file);
  if (loaded.ok()) {
    identity.emplace(std::move(loaded).value());
    return good("key", fmt::format("{} in {}", gossip::to_string(identity->key()), file.string()));
  }
  if (loaded.error().code() == ErrorCode::kCorrupt) {
    return failed("key", loaded.error().message(),
                  "trust.key: the file with this peer's key, or a new name, for another key, which "
                  "is another peer");
  }
  if (loaded.error().code() != ErrorCode::kNotFound) {
    return failed("key", loaded.error().message(), "do as it says, or set trust.key");
  }
  return doubtful("key",
                  fmt::format("there is none yet; the first start makes {}, and others whose "
                              "allow-list lacks it refuse this peer",
                              file.string()),
                  fmt::format("starling keygen {}", file.string()));
}

std::vector<Finding> check_trust(const PeerConfig& config, const gossip::PublicKey* own) {
  std::vector<Finding> findings;
  if (!config.trust.allow.empty()) findings.push_back(check_allow_list(config, own));
  if (!config.trust.secret.empty()) findings.push_back(check_secret(config.trust.secret));
  if (findings.empty()) {
    findings.push_back(good("trust",
                            "neither an allow-list nor a secret: whoever can connect to "
                            "this peer may take part"));
  }
  return findings;
}

Finding check_folder(const PeerConfig& config, std::uint64_t incarnation) {
  const fs::path folder = run_folder_names(config).path();
  auto last = last_start(folder);
  if (!last.ok()) {
    return failed("run folder", last.error().message(),
                  "do as it says, or set run.folder or run.peer_name to a new one");
  }
  if (!last.value().process.empty()) {
    return doubtful("run folder",
                    fmt::format("{} is in use: this peer runs as process {}", folder.string(),
                                last.value().process),
                    "'starling top' shows how it does; to start another one set run.peer_name");
  }
  if (last.value().incarnation > incarnation) {
    return doubtful(
        "run folder",
        fmt::format("the last start of {} was {:.0f} s ahead of this clock", folder.string(),
                    seconds_between(incarnation, last.value().incarnation)),
        "set this machine's clock");
  }
  return good("run folder", folder.string());
}

std::vector<Finding> check_data(const PeerConfig& config, ShardCheck check) {
  std::string training, validation;
  std::vector<Finding> findings{
      check_split({.check = "training", .key = "data.train", .paths = config.data.train}, config,
                  check, training)};
  if (!config.data.validation.empty()) {
    findings.push_back(check_split(
        {.check = "validation", .key = "data.validation", .paths = config.data.validation}, config,
        check, validation));
  }
  if (!training.empty()) findings.push_back(check_tokenizer(config, training, validation));
  return findings;
}

namespace {

Finding judge_checkpoint(const CheckpointFile& file, const PeerConfig& config,
                         const CheckpointDigests& digests) {
  const CheckpointHeader& header = file.header();
  const std::string path = file.path().string();
  if (header.digests != digests) {
    const std::string differing = differences(file, digests, config);
    return failed("checkpoint",
                  fmt::format("{} belongs to '{}', not to '{}'{}{}", path, header.title,
                              run_title(config), differing.empty() ? "" : ": ", differing),
                  "run.name, run.start and [model] as they were, another checkpoint.folder, or "
                  "checkpoint.resume = \"never\"");
  }
  if (Status seed = check_seed(file, config); !seed.ok()) {
    return failed("checkpoint", seed.error().message(), "run.seed as it was, or another run.name");
  }
  Status same = check_tokenizer(file, config.data.train);
  // That there are no data is told of them.
  if (!same.ok() && same.error().code() != ErrorCode::kNotFound) {
    return failed("checkpoint", same.error().message(),
                  "data.train, made by the model's own tokenizer, or another run.name");
  }
  Status whole = check_sections(file, config.outer.rule.method);
  if (!whole.ok()) {
    return failed("checkpoint", whole.error().message(),
                  "outer.method as it was, another run.name, or checkpoint.resume = \"never\"");
  }
  return good("checkpoint",
              fmt::format("training goes on from {} after {} steps", path, header.step));
}

Finding judge_no_checkpoint(const PeerConfig& config, const fs::path& folder) {
  if (config.checkpoint.resume == Resume::kRequired) {
    return failed("checkpoint",
                  "checkpoint.resume = \"required\", but there is none in " + folder.string(),
                  "checkpoint.resume = \"auto\", or checkpoint.folder");
  }
  const auto judge = trains_alone(config) ? &failed : &doubtful;
  if (Status kept = check_kept(config); !kept.ok()) {
    return judge("checkpoint", kept.error().message(), "the checkpoints back in their folder");
  }
  if (Status lost = check_given_up(config); !lost.ok()) {
    return judge("checkpoint", lost.error().message(),
                 "look at the disk that damaged them, and do as it says");
  }
  return good("checkpoint", "none in " + folder.string() + ": training begins anew");
}

}  // namespace

Finding check_checkpoint(const PeerConfig& config, const CheckpointDigests& digests) {
  const fs::path folder = checkpoint_folder(config);
  if (config.checkpoint.resume == Resume::kNever) {
    return good("checkpoint",
                "checkpoint.resume = \"never\": training begins anew, and what is there is "
                "kept as *.old");
  }
  auto files = checkpoints_in(folder);
  if (!files.ok()) {
    return failed("checkpoint", files.error().message(),
                  std::string(remedy_of_checkpoint(files.error())));
  }
  std::string damaged;
  for (const fs::path& path : files.value()) {  // as a start looks for one
    auto file = CheckpointFile::open(path);
    if (file.ok()) {
      Finding finding = judge_checkpoint(file.value(), config, digests);
      if (damaged.empty() || finding.verdict == Verdict::kFailed) return finding;
      return doubtful("checkpoint", damaged + finding.text, "look at the disk that damaged it");
    }
    const std::string what = fmt::format("{}: {}", path.string(), file.error().message());
    if (file.error().code() != ErrorCode::kCorrupt) {
      return failed("checkpoint", what, std::string(remedy_of_checkpoint(file.error())));
    }
    damaged += what + "; ";
  }
  if (damaged.empty()) return judge_no_checkpoint(config, folder);
  const auto judge = trains_alone(config) ? &failed : &doubtful;
  return judge("checkpoint", damaged + "there is no other to go on from",
               "a copy of one there, or checkpoint.resume = \"never\" to begin anew");
}

}  // namespace starling::peer

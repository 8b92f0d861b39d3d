#include "peer/files/key_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

constexpr std::size_t kSecretBytesMax = 64 * 1024;
constexpr std::size_t kAllowBytesMax = std::size_t{16} << 20;
constexpr mode_t kOwnerOnly = 0600;
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::string_view kBlanks = " \t\r\n";

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Status make_folder_of(const std::filesystem::path& path) {
  return path.parent_path().empty() ? ok_status() : create_folder(path.parent_path());
}

// What a key file begins with, so that it is not taken for another.
constexpr std::string_view kKeyTitle = "# The secret key of peer ";
constexpr std::string_view kSecretTitle = "swarm-secret-";  // part of the secret

Result<std::string> read_secret(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return io_error("open", path, errno);
  if (S_ISDIR(status.st_mode)) {
    return Error(ErrorCode::kInvalidConfig,
                 path.string() + " is a folder; name a file in it, as " + (path / "key").string());
  }
  return read_text(path, kSecretBytesMax);
}

// A secret that others can read is no secret: say so rather than go on.
Status check_mode(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return io_error("open", path, errno);
  if ((status.st_mode & 077) == 0) return ok_status();
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("{} can be read by others (mode {:03o}): chmod 600 it, or keep it where "
                           "files have modes; if anybody may have read it, make a new one",
                           path.string(), status.st_mode & 0777U));
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

Result<gossip::Identity> parse_key_file(std::string_view text) {
  const Error wrong(
      ErrorCode::kCorrupt,
      "is not the key of a peer; 'starling keygen FILE' makes one where there is no file");
  while (!text.empty() && text.front() == '#') {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  text = trimmed(text);
  gossip::SeedBytes seed{};
  if (text.size() != 2 * seed.size()) return wrong;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return wrong;
    seed[i / 2] = static_cast<std::uint8_t>(seed[i / 2] << 4 | digit);
  }
  auto identity = gossip::Identity::from_seed(seed);
  if (!identity) return wrong;
  return *identity;
}

Result<gossip::Identity> load_identity(const std::filesystem::path& path) {
  auto text = read_secret(path);
  if (!text.ok()) return std::move(text).error();
  auto identity = parse_key_file(text.value());
  if (!identity.ok()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} {}", path.string(), identity.error().message()));
  }
  if (Status safe = check_mode(path); !safe.ok()) return std::move(safe).error();
  return identity;
}

Result<gossip::Identity> load_or_make_identity(const std::filesystem::path& path) {
  auto known = load_identity(path);
  if (known.ok() || known.error().code() != ErrorCode::kNotFound) return known;
  const gossip::Identity identity = gossip::Identity::draw();
  if (Status folder = make_folder_of(path); !folder.ok()) return std::move(folder).error();
  Status saved =
      replace_file(path,
                   fmt::format("{}{}\n{}\n", kKeyTitle, gossip::to_string(identity.key()),
                               to_hex(identity.seed())),
                   kOwnerOnly);
  if (!saved.ok()) return std::move(saved).error();
  return identity;
}

Result<gossip::SwarmSecret> load_secret(const std::filesystem::path& path) {
  auto text = read_secret(path);
  if (!text.ok() && text.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("there is no {0}; copy the secret of the swarm there, which all its "
                             "peers share (whose first makes it: 'starling keygen --secret {0}')",
                             path.string()));
  }
  if (!text.ok()) return std::move(text).error();
  if (text.value().starts_with(kKeyTitle)) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} is the key of a peer, which no other has; the secret that all of "
                             "a swarm share is made by 'starling keygen --secret FILE'",
                             path.string()));
  }
  if (Status safe = check_mode(path); !safe.ok()) return std::move(safe).error();
  const std::string_view secret = trimmed(text.value());
  if (secret.size() < gossip::SwarmSecret::kBytesMin) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} has {} bytes; a secret has at least {}, and 'starling keygen "
                             "--secret' makes one",
                             path.string(), secret.size(), gossip::SwarmSecret::kBytesMin));
  }
  return gossip::SwarmSecret(std::as_bytes(std::span(secret)));
}

Status make_secret_file(const std::filesystem::path& path) {
  std::error_code failure;
  if (std::filesystem::exists(path, failure)) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} exists already: use it as it is, or name another file for "
                             "a new secret",
                             path.string()));
  }
  if (Status folder = make_folder_of(path); !folder.ok()) return folder;
  return replace_file(path, fmt::format("{}{}\n", kSecretTitle, to_hex(gossip::draw_secret())),
                      kOwnerOnly);
}

Result<gossip::AllowList> load_allow_list(const std::filesystem::path& path) {
  auto text = read_text(path, kAllowBytesMax);
  if (!text.ok() && text.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("there is no {}; write the keys of the other peers there, one a line, "
                             "as 'starling keygen FILE' tells each peer's",
                             path.string()));
  }
  if (!text.ok()) return std::move(text).error();
  if (text.value().starts_with(kKeyTitle)) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} is the secret key of a peer; a list has the public ones, which "
                             "'starling keygen FILE' tells",
                             path.string()));
  }
  auto list = gossip::parse_allow_list(text.value());
  if (!list.ok()) return std::move(list).error().with_context(path.string());
  return list;
}

AllowListWatch::AllowListWatch(std::filesystem::path path)
    : path_(std::move(path)), judged_(read()) {
  auto list = gossip::parse_allow_list(judged_.text);
  has_keys_ = judged_.readable && list.ok() && list.value().size() > 0;
}

std::optional<Result<gossip::AllowList>> AllowListWatch::look() {
  Found now = read();
  if (now == judged_) {
    new_.reset();
    return std::nullopt;
  }
  if (now != new_) {
    new_ = std::move(now);
    return std::nullopt;
  }
  new_.reset();
  judged_ = std::move(now);
  if (!judged_.readable) return Error(ErrorCode::kIo, judged_.text);
  auto list = gossip::parse_allow_list(judged_.text);
  if (!list.ok()) return std::move(list).error().with_context(path_.string());
  if (list.value().size() == 0 && has_keys_) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} names no key any more; to shut everybody out, leave this peer's "
                             "own in it",
                             path_.string()));
  }
  has_keys_ = list.value().size() > 0;
  return list;
}

AllowListWatch::Found AllowListWatch::read() const {
  auto text = read_text(path_, kAllowBytesMax);
  if (!text.ok()) return {false, std::string(text.error().message())};
  return {true, std::move(text).value()};
}

}  // namespace starling::peer

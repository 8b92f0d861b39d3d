// Key files: what a peer keeps secret, and whom it trusts, as files.
//
//   key      64 hex digits: the seed of this peer's Identity. Whoever has it is this peer.
//   secret   at least 32 bytes: the swarm's secret, the same for all
//   allow    the keys that may take part, see gossip/trust.h; nothing secret
//
// Key and secret must be readable by their owner alone (mode 0600); nothing else is accepted. They
// are made durable before anybody uses them. '#' begins a comment in a key file. Errors name the
// file and what to do. Blocking: start-up and tools; the allow-list, which is small, once a second.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "gossip/identity.h"
#include "gossip/trust.h"

namespace starling::peer {

// Foreign bytes: the contents of a key file.
Result<gossip::Identity> parse_key_file(std::string_view text);

Result<gossip::Identity> load_identity(const std::filesystem::path& path);
// Draws a new identity if there is no such file, and makes its folder.
Result<gossip::Identity> load_or_make_identity(const std::filesystem::path& path);

Result<gossip::SwarmSecret> load_secret(const std::filesystem::path& path);
// Never replaces a file.
Status make_secret_file(const std::filesystem::path& path);

Result<gossip::AllowList> load_allow_list(const std::filesystem::path& path);

// Tells when a file has another content than at the last look, by its times, size and place.
class FileWatch {
 public:
  explicit FileWatch(std::filesystem::path path);
  // A file that is away at one look may be on its way to being replaced; at two, it has changed.
  bool changed();

 private:
  struct Look {
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t bytes = 0, place = 0;
    friend bool operator==(const Look&, const Look&) = default;
  };
  std::optional<Look> look() const;

  std::filesystem::path path_;
  std::optional<Look> seen_;
  bool away_ = false;
};

}  // namespace starling::peer

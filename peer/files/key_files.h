// Key files: what a peer keeps secret, and whom it trusts, as files.
//
//   key      64 hex digits: the seed of this peer's Identity. Whoever has it is this peer.
//   secret   at least 32 bytes: the swarm's secret, the same for all
//   allow    the keys that may take part, see gossip/net/trust.h; nothing secret
//
// Key and secret must be readable by their owner alone (mode 0600); nothing else is accepted. They
// are made durable before anybody uses them. '#' begins a comment in a key file. Errors name the
// file and what to do. Blocking: start-up and tools; the allow-list, which is small, once a second.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "gossip/net/identity.h"
#include "gossip/net/trust.h"

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

// The allow-list's file while the peer runs. It is read at every look, and taken once two looks in
// a row found the same: a file that is being copied is empty first, and then in parts.
class AllowListWatch {
 public:
  explicit AllowListWatch(std::filesystem::path path);  // what it holds now is in force
  // Nothing: no news. An error, told once: what it holds now cannot be read, or names no key where
  // the list in force has some, which looks like a file that was cut; the old list stays.
  std::optional<Result<gossip::AllowList>> look();

 private:
  struct Found {
    bool readable = false;
    std::string text;  // or why not
    friend bool operator==(const Found&, const Found&) = default;
  };
  Found read() const;

  std::filesystem::path path_;
  Found judged_;
  std::optional<Found> new_;  // found at the last look
  bool has_keys_ = false;     // the list in force
};

}  // namespace starling::peer

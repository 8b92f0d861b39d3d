// Trust: who may take part. An allow-list names the keys; a swarm secret lets in whoever knows it.
// With both, both must hold; with neither, anybody who can reach the port.
//
// The proof of the secret is a BLAKE2b keyed with it (RFC 7693 section 2.9) over a tag, the keys of
// sender and receiver and the run, so it is worth nothing to anybody else, towards anybody else or
// in another run. CURVE has shown before that the sender has the key it names.
//
// parse_allow_list is for foreign bytes. Errors (kInvalidConfig) name the line. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gossip/messages.h"

namespace starling::gossip {

class AllowList {
 public:
  static constexpr std::size_t kKeysMax = 65536;
  static constexpr std::size_t kNameBytesMax = 24;

  bool contains(const PublicKey& key) const { return keys_.contains(key); }
  std::size_t size() const { return keys_.size(); }
  std::vector<PeerId> ids() const;
  // What people call them, for people alone: printable ASCII, cut short. Not all have a name.
  std::map<PeerId, std::string> names() const;
  void add(const PublicKey& key, std::string_view name = {});

 private:
  std::map<PublicKey, std::string> keys_;
};

// A key a line, then, if you like, a name; '#' begins a comment.
Result<AllowList> parse_allow_list(std::string_view text);

class SwarmSecret {
 public:
  static constexpr std::size_t kBytesMin = 32;

  explicit SwarmSecret(std::span<const std::byte> secret);  // at least kBytesMin
  ~SwarmSecret();
  SwarmSecret(const SwarmSecret&) = default;
  SwarmSecret& operator=(const SwarmSecret&) = default;

  struct Greeting {
    PublicKey sender;
    PublicKey receiver;
    std::uint64_t run = 0;
  };
  SecretProof prove(const Greeting& greeting) const;
  bool holds(const SecretProof& proof, const Greeting& greeting) const;

 private:
  std::array<std::uint8_t, 32> key_{};
};

}  // namespace starling::gossip

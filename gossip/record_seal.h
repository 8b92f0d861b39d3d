// RecordSeal: how a peer vouches for its own record. Records travel through many hands, so whoever
// could write one for somebody else could name him dead in a life he has yet to begin, or lead his
// partners away. A record says of its subject which process and refutation it is (PeerKey), where
// it listens, whether it can be dialled, whether it forwards and who forwards to it; that, and that
// it has left, stands under the subject's signature. Its health, its accuser and its age are the
// word of whoever tells it: they can only be doubted, and denied (membership.h).
//
// The next version of the wire. A record is passed on by peers of both versions that share a swarm,
// and travels in greetings, which never change: a text that only one of them could put together
// would be a forgery to the other, who mutes its bringer. So sealed_text() and the fields of
// PeerRecord are what they are for good. A version that has peers say more of themselves appends it
// to PeerRecord::extension, which is signed, checked and passed on as it came by those who do not
// understand it. There, too, fields only ever come behind the others: a reader takes those that it
// knows, gives the missing ones their defaults, and leaves the rest alone.
//
// The core knows no cryptography: the seal is given to it (IdentitySeal in net/identity.h;
// StandInSeal where no secrets exist). Thread: const, any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gossip/messages.h"
#include "gossip/public_key.h"

namespace starling::gossip {

class RecordSeal {
 public:
  virtual ~RecordSeal() = default;
  virtual Signature sign(std::span<const std::byte> text) const = 0;
  virtual bool verify(const PublicKey& key, std::span<const std::byte> text,
                      const Signature& signature) const = 0;
};

// What a subject signs: a name of the format, the run, and its own part of the record.
std::vector<std::byte> sealed_text(std::uint64_t run, const PeerRecord& record);

// Proves nothing, but differs for every subject and text: simulators and tests.
class StandInSeal final : public RecordSeal {
 public:
  explicit StandInSeal(PeerId self) : self_(self) {}
  Signature sign(std::span<const std::byte> text) const override { return sign_as(self_, text); }
  bool verify(const PublicKey& key, std::span<const std::byte> text,
              const Signature& signature) const override {
    return sign_as(id_of(key), text) == signature;
  }

 private:
  static Signature sign_as(PeerId id, std::span<const std::byte> text);
  PeerId self_;
};

}  // namespace starling::gossip

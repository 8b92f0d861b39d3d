// Feeds read_head() and Sealer::open() with hostile envelopes. The first byte chooses: the rest as
// it is; the rest as a frame, sealed by a peer that is hostile itself, which must come out as it
// went in; or the same with one byte changed, which must not come out at all.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "gossip/net/envelope.h"
#include "gossip/wire/wire.h"

namespace {

using namespace starling::gossip;
using Bytes = std::vector<std::byte>;

Identity identity(std::uint8_t number) {
  for (SeedBytes seed{number};; ++seed[1]) {
    if (auto found = Identity::from_seed(seed)) return *found;
  }
}

const Identity kSender = identity(1);
const Identity kReceiver = identity(2);

EnvelopeFault open(Sealer& receiver, const Bytes& envelope, Bytes& frame) {
  const auto head = read_head(envelope);
  if (!head) return EnvelopeFault::kMalformed;
  frame.resize(envelope.size() - kEnvelopeBytes);
  return receiver.open(envelope, *head, frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  static Sealer sender(kSender, 1);
  static Sealer receiver(kReceiver, 1);
  const auto* first = reinterpret_cast<const std::byte*>(data);
  const Bytes rest(first + 4, first + size);
  Bytes frame;
  if (data[0] % 3 == 0) {
    STARLING_ASSERT(open(receiver, rest, frame) != EnvelopeFault::kNone);
    return 0;
  }
  Bytes envelope(rest.size() + kEnvelopeBytes);
  STARLING_ASSERT(sender.seal({kReceiver.key(), 1}, data[0] % 2 == 0, rest, envelope));
  if (data[0] % 3 == 1) {
    STARLING_ASSERT(open(receiver, envelope, frame) == EnvelopeFault::kNone);
    STARLING_ASSERT(frame == rest);
    static_cast<void>(decode(frame).ok());
    STARLING_ASSERT(open(receiver, envelope, frame) == EnvelopeFault::kReplayed);
    return 0;
  }
  const std::size_t at = (data[1] * 256U + data[2]) % envelope.size();
  envelope[at] ^= static_cast<std::byte>(data[3] | 1U);
  STARLING_ASSERT(open(receiver, envelope, frame) != EnvelopeFault::kNone);
  return 0;
}

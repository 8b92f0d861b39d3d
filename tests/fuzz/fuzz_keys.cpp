// Feeds the parsers of keys with hostile text: allow-lists, key files and seeds. What is accepted
// must be shown as it was read. The first byte chooses the parser.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "gossip/net/trust.h"
#include "peer/config/addresses.h"
#include "peer/config/config.h"
#include "peer/files/key_files.h"

namespace {

using namespace starling;

void check_allow_list(std::string_view text) {
  auto list = gossip::parse_allow_list(text);
  if (list.ok()) STARLING_ASSERT(list.value().size() <= text.size() / 64);
}

void check_key_file(std::string_view text) {
  auto identity = peer::parse_key_file(text);
  if (!identity.ok()) return;
  STARLING_ASSERT(gossip::names_a_peer(identity.value().key()));
  STARLING_ASSERT(gossip::public_key_of(identity.value().curve_public()) == identity.value().key());
}

void check_seed(std::string_view text) {
  auto address = peer::parse_seed(text);
  if (!address.ok()) return;
  auto again = peer::parse_seed(peer::to_seed(address.value()));
  STARLING_ASSERT(again.ok());
  STARLING_ASSERT(again.value() == address.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) check_allow_list(text);
  if (data[0] % 3 == 1) check_key_file(text);
  if (data[0] % 3 == 2) check_seed(text);
  return 0;
}

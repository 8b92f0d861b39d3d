#include "gossip/token_seal.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace starling::gossip {
namespace {

constexpr std::string_view kFormat = "starling token count 1";

// Of a fixed size, because the checks of a large simulation are many.
class Text {
 public:
  Text(std::uint64_t run, const TokenEntry& entry) {
    append(kFormat.data(), kFormat.size());
    append_number(run);
    append(entry.owner.bytes.data(), entry.owner.bytes.size());
    append_number(entry.key.incarnation);
    append_number(entry.tokens);
    append_number(std::uint64_t{std::bit_cast<std::uint32_t>(entry.rate)});
  }
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

 private:
  void append(const void* source, std::size_t count) {
    std::memcpy(bytes_.data() + size_, source, count);
    size_ += count;
  }
  void append_number(std::uint64_t number) {
    for (std::size_t i = 0; i < sizeof number; ++i) {
      bytes_[size_++] = static_cast<std::byte>(number >> (8 * i) & 0xff);
    }
  }

  std::array<std::byte, kFormat.size() + sizeof(PublicKey) + 4 * sizeof(std::uint64_t)> bytes_;
  std::size_t size_ = 0;
};

}  // namespace

void TokenSeal::sign(TokenEntry& entry) const {
  entry.signature = seal_->sign(Text(run_, entry).bytes());
}

bool TokenSeal::verify(const TokenEntry& entry) const {
  const bool rate_is_sane = entry.rate >= 0 && entry.rate <= kRateMax;  // false for NaN
  return rate_is_sane && entry.tokens <= kTokensOfProcessMax &&
         entry.key.id == id_of(entry.owner) &&
         seal_->verify(entry.owner, Text(run_, entry).bytes(), entry.signature);
}

}  // namespace starling::gossip

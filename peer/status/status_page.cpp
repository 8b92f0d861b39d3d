#include "peer/status/status_page.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <string_view>

#include "base/assert.h"
#include "peer/status/status_page_parts.h"

namespace starling::peer {

namespace {

void replace(std::string& text, std::string_view mark, std::string_view by) {
  const std::size_t place = text.find(mark);
  STARLING_ASSERT(place != std::string::npos);
  text.replace(place, mark.size(), by);
}

// As a policy names what may stand in the document.
std::string source_of(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::array<char, sodium_base64_ENCODED_LEN(crypto_hash_sha256_BYTES, kVariant)> encoded{};
  sodium_bin2base64(encoded.data(), encoded.size(), hash.data(), hash.size(), kVariant);
  return fmt::format("'sha256-{}'", encoded.data());
}

StatusPage assemble() {
  StatusPage page{.html = std::string(kPageHtml), .policy = {}};
  replace(page.html, "@STYLE@", kPageStyle);
  replace(page.html, "@SCRIPT@", kPageScript);
  page.policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      source_of(kPageScript), source_of(kPageStyle));
  return page;
}

}  // namespace

const StatusPage& status_page() {
  static const StatusPage page = assemble();
  return page;
}

}  // namespace starling::peer

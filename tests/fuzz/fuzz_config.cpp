// Feeds the reader of configuration files with hostile text. The first line that begins with '!' is
// an override. What is accepted must come out of dump() as it went in.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "peer/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (!text.empty() && text.front() == '!') {
    const std::size_t end = std::min(text.find('\n'), text.size());
    overrides.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end);
  }
  auto config = peer::parse_config(text, "fuzz", overrides);
  if (!config.ok()) return 0;
  const std::string said = peer::dump(config.value());
  auto again = peer::parse_config(said, "dump", {});
  STARLING_ASSERT(again.ok());
  STARLING_ASSERT(peer::dump(again.value()) == said);
  return 0;
}

// Feeds what a status server may answer to its reader, and draws it as `starling top` does. The
// first two bytes say how large the terminal is. No control character may reach it but line feeds,
// however the report is made.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "peer/status/status_client.h"
#include "peer/watch/top_view.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling::peer;
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  auto report = parse_status_report(text);
  if (!report.ok()) return 0;
  const TopSize terminal{.columns = data[0], .rows = data[1]};
  for (const nlohmann::json& before : {nlohmann::json::object(), report.value()}) {
    const std::string screen = top_screen(report.value(), before, terminal);
    STARLING_ASSERT(screen.empty() || screen.back() == '\n');
    STARLING_ASSERT(std::all_of(screen.begin(), screen.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte == '\n' || (byte >= 0x20 && byte != 0x7f);
    }));
  }
  return 0;
}

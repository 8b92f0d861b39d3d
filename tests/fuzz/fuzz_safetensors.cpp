// Feeds the header of a safetensors file to its parser, and config.json to that of its own. The
// first byte says which; the next two how long the data is. What is accepted must agree with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "peer/files/hugging_face.h"
#include "peer/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling::peer;
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (data[0] % 2 == 1) {
    auto config = parse_hugging_face_config(text);
    if (config.ok()) STARLING_ASSERT(starling::model::validate(config.value()).ok());
    return 0;
  }
  const std::uint64_t bytes = data[1] | std::uint64_t{data[2]} << 8;
  auto table = parse_safetensors(text, bytes);
  if (!table.ok()) return 0;
  std::uint64_t filled = 0;
  for (const auto& [name, tensor] : table.value()) {
    STARLING_ASSERT(tensor.first <= tensor.end);
    STARLING_ASSERT(tensor.end <= bytes);
    STARLING_ASSERT(tensor.elements() <= bytes);
    filled += tensor.end - tensor.first;
  }
  STARLING_ASSERT(filled == bytes);
  return 0;
}

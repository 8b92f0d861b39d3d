// Feeds model.safetensors.index.json to its parser: no file that it names may lie elsewhere.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "peer/files/hugging_face.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto names = starling::peer::parse_model_index(text);
  if (!names.ok()) return 0;
  STARLING_ASSERT(!names.value().empty());
  for (const std::string& name : names.value()) {
    STARLING_ASSERT(!name.empty());
    STARLING_ASSERT(name.find('/') == std::string::npos);
    STARLING_ASSERT(name != "..");
  }
  return 0;
}

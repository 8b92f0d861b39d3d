// Feeds config.json of a foreign model to its reader. What is accepted is a model that can be laid
// out, and comes back as it was from what we write of it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "peer/files/hugging_face.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = peer::parse_hugging_face_config(text);
  if (!config.ok()) return 0;
  STARLING_ASSERT(model::validate(config.value()).ok());
  const std::string said = peer::hugging_face_config(config.value(), peer::FloatType::kF32, {});
  auto again = peer::parse_hugging_face_config(said);
  STARLING_ASSERT(again.ok());
  STARLING_ASSERT(peer::hugging_face_config(again.value(), peer::FloatType::kF32, {}) == said);
  return 0;
}

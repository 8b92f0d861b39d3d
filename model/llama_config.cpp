#include "model/llama_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace starling::model {

namespace {

struct Bound {
  const char* name;
  std::int64_t value, max;
};

Error clash(std::string message) { return Error(ErrorCode::kInvalidConfig, std::move(message)); }

// The limits keep every product of two dimensions far from overflow.
Status validate_bounds(const LlamaConfig& config) {
  const std::array<Bound, 7> bounds = {{
      {"vocabulary", config.vocabulary, std::int64_t{1} << 24},
      {"width", config.width, std::int64_t{1} << 16},
      {"layers", config.layers, 1024},
      {"heads", config.heads, 1024},
      {"kv_heads", config.kv_heads, 1024},
      {"ffn", config.ffn, std::int64_t{1} << 20},
      {"context", config.context, std::int64_t{1} << 20},
  }};
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.max) {
      return clash(fmt::format("model.{} must be between 1 and {}, not {}", bound.name, bound.max,
                               bound.value));
    }
  }
  return ok_status();
}

}  // namespace

Status validate(const LlamaConfig& config) {
  if (Status bounds = validate_bounds(config); !bounds.ok()) return bounds;
  if (config.width % config.heads != 0) {
    return clash(fmt::format("model.width must be a multiple of model.heads, not {} and {}",
                             config.width, config.heads));
  }
  if (config.heads % config.kv_heads != 0) {
    return clash(fmt::format("model.heads must be a multiple of model.kv_heads, not {} and {}",
                             config.heads, config.kv_heads));
  }
  if (config.head_width() % 2 != 0) {
    return clash(fmt::format(
        "model.width / model.heads must be even, because rotary positions turn pairs, not {} / {}",
        config.width, config.heads));
  }
  if (!std::isfinite(config.rope_theta) || config.rope_theta < 1.0F) {
    return clash(
        fmt::format("model.rope_theta must be a number of at least 1, not {}", config.rope_theta));
  }
  if (!std::isfinite(config.norm_epsilon) || config.norm_epsilon <= 0.0F) {
    return clash(
        fmt::format("model.norm_epsilon must be a number above 0, not {}", config.norm_epsilon));
  }
  return ok_status();
}

}  // namespace starling::model

#include "model/llama_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

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
      {"ffn", config.ffn, std::int64_t{1} << 18},
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
  if (!std::isfinite(config.rope_factor) || config.rope_factor < 1.0F) {
    return clash(fmt::format("model.rope_factor must be a number of at least 1, not {}",
                             config.rope_factor));
  }
  const bool ordered = config.rope_low_frequency > 0 &&
                       config.rope_low_frequency < config.rope_high_frequency &&
                       std::isfinite(config.rope_high_frequency);
  if (!ordered || config.rope_original_context < 1) {
    return clash(fmt::format(
        "model.rope_low_frequency must be above 0 and below "
        "model.rope_high_frequency, and model.rope_original_context at least "
        "1, not {}, {} and {}",
        config.rope_low_frequency, config.rope_high_frequency, config.rope_original_context));
  }
  if (!std::isfinite(config.norm_epsilon) || config.norm_epsilon <= 0.0F) {
    return clash(
        fmt::format("model.norm_epsilon must be a number above 0, not {}", config.norm_epsilon));
  }
  return ok_status();
}

double rope_frequency(const LlamaConfig& config, std::int64_t pair) {
  const double exponent =
      -2.0 * static_cast<double>(pair) / static_cast<double>(config.head_width());
  const double frequency = std::pow(double{config.rope_theta}, exponent);
  if (config.rope_factor == 1.0F) return frequency;
  const double turns =
      frequency * static_cast<double>(config.rope_original_context) / (2 * std::numbers::pi);
  const double low = config.rope_low_frequency, high = config.rope_high_frequency;
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / double{config.rope_factor});
}

}  // namespace starling::model

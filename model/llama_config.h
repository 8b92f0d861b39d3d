// LlamaConfig: the numbers that fix a Llama architecture (Touvron et al., "LLaMA", 2023, section
// 2.2): pre-norm decoder, RMSNorm, rotary positions, grouped-query attention, SwiGLU.
//
// A plain value. validate() is the one place that says which combinations make sense; its errors
// (kInvalidConfig) name the fields as a configuration file does, "model.width".
#pragma once

#include <cstdint>

#include "base/result.h"

namespace starling::model {

struct LlamaConfig {
  std::int64_t vocabulary = 256;  // token ids are 0 .. vocabulary - 1
  std::int64_t width = 128;       // values of the residual stream per token
  std::int64_t layers = 4;
  std::int64_t heads = 4;      // query heads
  std::int64_t kv_heads = 2;   // key and value heads, each shared by heads / kv_heads queries
  std::int64_t ffn = 352;      // inner width of the SwiGLU block
  std::int64_t context = 128;  // longest sequence, in tokens
  float rope_theta = 10000.0F;
  // Llama 3.1's stretched rotation: slow pairs turn so many times slower; 1: none of it. The three
  // behind it say which pairs are slow, see rope_frequency().
  float rope_factor = 1.0F;
  float rope_low_frequency = 1.0F;
  float rope_high_frequency = 4.0F;
  std::int64_t rope_original_context = 8192;
  float norm_epsilon = 1e-5F;
  bool tied_head = true;  // the output matrix is the embedding

  std::int64_t head_width() const { return width / heads; }
  std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_width(); }
};

Status validate(const LlamaConfig& config);

// Radians that pair `pair` of a head turns per position: theta^(-2 pair / head_width) (Su et al.,
// "RoFormer", 2021, equation 15). With a factor, pairs that turn less than rope_low_frequency times
// within the original context are slowed by it, those that turn more than rope_high_frequency times
// are left alone, and between the two it goes over linearly (Llama 3.1's reference code,
// `apply_scaling`; "llama3" in the rope_scaling of Hugging Face's format).
double rope_frequency(const LlamaConfig& config, std::int64_t pair);

}  // namespace starling::model

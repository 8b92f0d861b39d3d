#include "model/param_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/hash.h"

namespace starling::model {

Result<ParamLayout> ParamLayout::plan(const LlamaConfig& config, std::uint16_t fragments) {
  if (Status valid = validate(config); !valid.ok()) return std::move(valid).error();
  if (fragments == 0) return Error(ErrorCode::kInvalidConfig, "fragments must be at least 1");
  if (fragments > config.layers + 1) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("fragments must be at most model.layers + 1, not {} with {} layers",
                             fragments, config.layers));
  }
  ParamLayout layout(config);
  layout.fragments_.emplace_back();
  layout.add("model.embed_tokens.weight", {config.vocabulary, config.width}, false);
  layout.add("model.norm.weight", {config.width}, false);
  if (!config.tied_head) layout.add("lm_head.weight", {config.vocabulary, config.width}, true);
  if (fragments == 1) {
    for (std::int64_t layer = 0; layer < config.layers; ++layer) layout.add_layer(layer);
  }
  for (std::int64_t first = 0; first + 1 < fragments; ++first) {
    layout.fragments_.push_back({layout.elements_, 0});
    for (std::int64_t layer = first; layer < config.layers; layer += fragments - 1) {
      layout.add_layer(layer);
    }
  }
  layout.digest_ = layout.compute_digest();
  return layout;
}

Range ParamLayout::fragment(FragmentId id) const {
  STARLING_ASSERT(id.value < fragments_.size());
  return fragments_[id.value];
}

const ParamSlot* ParamLayout::find(std::string_view name) const {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const ParamSlot& slot) { return slot.name == name; });
  return found == slots_.end() ? nullptr : &*found;
}

// Appends to the fragment that was opened last.
void ParamLayout::add(std::string name, const Shape& shape, bool decays) {
  const auto count = static_cast<std::size_t>(shape.elements());
  const FragmentId fragment{static_cast<std::uint16_t>(fragments_.size() - 1)};
  slots_.push_back({std::move(name), shape, {elements_, count}, fragment, decays});
  fragments_.back().count += count;
  elements_ += count;
}

void ParamLayout::add_layer(std::int64_t layer) {
  const std::int64_t width = config_.width;
  const std::int64_t kv_width = config_.kv_heads * config_.head_width();
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  add(prefix + "input_layernorm.weight", {width}, false);
  add(prefix + "self_attn.q_proj.weight", {width, width}, true);
  add(prefix + "self_attn.k_proj.weight", {kv_width, width}, true);
  add(prefix + "self_attn.v_proj.weight", {kv_width, width}, true);
  add(prefix + "self_attn.o_proj.weight", {width, width}, true);
  add(prefix + "post_attention_layernorm.weight", {width}, false);
  add(prefix + "mlp.gate_proj.weight", {config_.ffn, width}, true);
  add(prefix + "mlp.up_proj.weight", {config_.ffn, width}, true);
  add(prefix + "mlp.down_proj.weight", {width, config_.ffn}, true);
}

// Text, so that the digest depends on no padding and no byte order.
std::uint64_t ParamLayout::compute_digest() const {
  const LlamaConfig& c = config_;
  std::string text = fmt::format(
      "llama 1 vocabulary {} width {} layers {} heads {} kv_heads {} ffn {} context {} "
      "rope_theta {:08x} norm_epsilon {:08x} tied_head {}\n",
      c.vocabulary, c.width, c.layers, c.heads, c.kv_heads, c.ffn, c.context,
      std::bit_cast<std::uint32_t>(c.rope_theta), std::bit_cast<std::uint32_t>(c.norm_epsilon),
      c.tied_head);
  if (c.rope_factor != 1.0F) {
    fmt::format_to(std::back_inserter(text), "rope_factor {:08x} {:08x} {:08x} {}\n",
                   std::bit_cast<std::uint32_t>(c.rope_factor),
                   std::bit_cast<std::uint32_t>(c.rope_low_frequency),
                   std::bit_cast<std::uint32_t>(c.rope_high_frequency), c.rope_original_context);
  }
  for (const ParamSlot& slot : slots_) {
    fmt::format_to(std::back_inserter(text), "{} {} {} {} {} {}\n", slot.name, slot.shape.dims[0],
                   slot.shape.dims[1], slot.fragment.value, slot.range.first, slot.range.count);
  }
  return starling::digest(std::string_view(text));
}

}  // namespace starling::model

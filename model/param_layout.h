// ParamLayout: where each parameter lives in the flat arena, and which fragment it belongs to.
//
// Arena order IS fragment order, with no padding: a fragment is one contiguous range by
// construction, and the arena holds exactly the parameters. Fragment 0 holds the embedding, the
// final norm and the head (if untied); layer l is in fragment 1 + l mod (fragments - 1), so that
// each fragment holds layers from the whole depth (Douillard et al., "Streaming DiLoCo", 2025,
// section 2.2). One fragment holds everything.
//
// Names and shapes are those of Llama checkpoints in Hugging Face's format; matrices are
// (outputs, inputs). Within a layer q, k and v follow each other, and so do gate and up: each group
// is one larger matrix, which is how Llama multiplies by them. An immutable value after plan().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/llama_config.h"
#include "model/tensor.h"

namespace starling::model {

struct Range {
  std::size_t first = 0, count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

struct ParamSlot {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;
  Range range;
  FragmentId fragment;
  bool decays = false;  // weight decay: projection matrices only, neither gains nor the embedding
};

class ParamLayout {
 public:
  // Errors: kInvalidConfig, for the configuration or for more fragments than layers can fill.
  static Result<ParamLayout> plan(const LlamaConfig& config, std::uint16_t fragments);

  const LlamaConfig& config() const { return config_; }
  std::size_t elements() const { return elements_; }
  std::uint16_t fragments() const { return static_cast<std::uint16_t>(fragments_.size()); }
  Range fragment(FragmentId id) const;
  std::span<const ParamSlot> slots() const { return slots_; }  // in arena order
  // Null: there is no parameter of this name.
  const ParamSlot* find(std::string_view name) const;
  // Of the configuration and of every slot: equal digests mean exchangeable arenas.
  std::uint64_t digest() const { return digest_; }

 private:
  explicit ParamLayout(const LlamaConfig& config) : config_(config) {}
  void add(std::string name, const Shape& shape, bool decays);
  void add_layer(std::int64_t layer);
  std::uint64_t compute_digest() const;

  LlamaConfig config_;
  std::vector<ParamSlot> slots_;
  std::vector<Range> fragments_;
  std::size_t elements_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace starling::model

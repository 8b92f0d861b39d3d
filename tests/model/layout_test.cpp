#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "model/init.h"
#include "model/llama_config.h"
#include "model/param_layout.h"

namespace starling::model {

namespace {

ParamLayout plan(const LlamaConfig& config, std::uint16_t fragments) {
  Result<ParamLayout> layout = ParamLayout::plan(config, fragments);
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

std::string refusal(const LlamaConfig& config) {
  Status status = validate(config);
  REQUIRE(!status.ok());
  CHECK(status.error().code() == ErrorCode::kInvalidConfig);
  return status.error().message();
}

bool mentions(const std::string& text, std::string_view first, std::string_view second) {
  return text.find(first) != std::string::npos && text.find(second) != std::string::npos;
}

}  // namespace

TEST_CASE("a stretched rotation is that of Llama 3.2") {
  // transformers, modeling_rope_utils.py, _compute_llama3_parameters, in double precision.
  LlamaConfig config{.width = 64, .heads = 1, .kv_heads = 1, .rope_theta = 500000.0F};
  config.rope_factor = 32;
  config.rope_low_frequency = 1;
  config.rope_high_frequency = 4;
  config.rope_original_context = 8192;
  const auto is = [&config](std::int64_t pair, double expected) {
    return rope_frequency(config, pair) == doctest::Approx(expected).epsilon(1e-12);
  };
  CHECK(is(5, 0.12868737343265052));  // fast: as it was
  CHECK(is(14, 0.003211445994752591));
  CHECK(is(15, 0.001290547928209264));  // between
  CHECK(is(16, 0.00042955679655936815));
  CHECK(is(17, 9.70828780262767e-05));
  CHECK(is(18, 1.9461638184831125e-05));  // slow: a 32nd
  CHECK(is(31, 9.41830672543491e-08));
}

TEST_CASE("the default configuration is valid") { CHECK(validate(LlamaConfig{}).ok()); }

TEST_CASE("a refused configuration names the fields that clash") {
  CHECK(mentions(refusal({.width = 130, .heads = 4}), "model.width", "model.heads"));
  CHECK(mentions(refusal({.heads = 4, .kv_heads = 3}), "model.heads", "model.kv_heads"));
  CHECK(mentions(refusal({.width = 12, .heads = 4}), "model.width", "model.heads"));
  CHECK(mentions(refusal({.vocabulary = 0}), "model.vocabulary", "between 1 and"));
  CHECK(mentions(refusal({.layers = -1}), "model.layers", "not -1"));
  CHECK(mentions(refusal({.ffn = std::int64_t{1} << 40}), "model.ffn", "262144"));
  CHECK(mentions(refusal({.rope_factor = 0.5F}), "model.rope_factor", "at least 1"));
  CHECK(mentions(refusal({.rope_low_frequency = 4.0F}), "model.rope_low_frequency", "below"));
  CHECK(mentions(refusal({.rope_theta = 0.0F}), "model.rope_theta", "at least 1"));
  CHECK(mentions(refusal({.norm_epsilon = -1.0F}), "model.norm_epsilon", "above 0"));
}

TEST_CASE("fragments partition the arena and hold whole tensors") {
  for (std::uint16_t fragments = 1; fragments <= 8; ++fragments) {
    CAPTURE(fragments);
    const ParamLayout layout = plan({.layers = 7, .tied_head = false}, fragments);
    REQUIRE(layout.fragments() == fragments);
    std::size_t next = 0;
    for (std::uint16_t id = 0; id < fragments; ++id) {
      const Range range = layout.fragment({id});
      CHECK(range.first == next);
      CHECK(range.count > 0);
      next += range.count;
    }
    CHECK(next == layout.elements());
    next = 0;
    for (const ParamSlot& slot : layout.slots()) {
      const Range fragment = layout.fragment(slot.fragment);
      CHECK(slot.range.first == next);
      CHECK(slot.range.count == static_cast<std::size_t>(slot.shape.elements()));
      CHECK(slot.range.first >= fragment.first);
      CHECK(slot.range.first + slot.range.count <= fragment.first + fragment.count);
      next += slot.range.count;
    }
    CHECK(next == layout.elements());
  }
}

TEST_CASE("layers are dealt to the fragments in turn and fragment 0 holds the ends") {
  const ParamLayout layout = plan({.layers = 7, .tied_head = false}, 4);
  const auto fragment_of = [&](std::string_view name) {
    const ParamSlot* slot = layout.find(name);
    REQUIRE(slot != nullptr);
    return slot->fragment.value;
  };
  CHECK(fragment_of("model.embed_tokens.weight") == 0);
  CHECK(fragment_of("model.norm.weight") == 0);
  CHECK(fragment_of("lm_head.weight") == 0);
  for (int layer = 0; layer < 7; ++layer) {
    CAPTURE(layer);
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    CHECK(fragment_of(prefix + "input_layernorm.weight") == 1 + layer % 3);
    CHECK(fragment_of(prefix + "mlp.down_proj.weight") == 1 + layer % 3);
  }
}

TEST_CASE("the arena holds exactly the parameters of the architecture") {
  // By hand: embedding 5*8, norm 8; a layer: norms 2*8, q and o 2*8*8, k and v 2*4*8, ffn 3*6*8.
  const LlamaConfig config{
      .vocabulary = 5, .width = 8, .layers = 2, .heads = 2, .kv_heads = 1, .ffn = 6};
  CHECK(plan(config, 3).elements() == 40 + 8 + 2 * (16 + 128 + 64 + 144));
}

TEST_CASE("only projection matrices decay") {
  const ParamLayout layout = plan({.tied_head = false}, 2);
  for (const ParamSlot& slot : layout.slots()) {
    CAPTURE(slot.name);
    CHECK(slot.decays == (slot.shape.rank == 2 && slot.name != "model.embed_tokens.weight"));
  }
}

TEST_CASE("more fragments than layers can fill are refused") {
  CHECK(ParamLayout::plan({.layers = 4}, 5).ok());
  Result<ParamLayout> layout = ParamLayout::plan({.layers = 4}, 6);
  REQUIRE(!layout.ok());
  CHECK(mentions(layout.error().message(), "fragments", "model.layers"));
  CHECK(!ParamLayout::plan({.layers = 4}, 0).ok());
  CHECK(!ParamLayout::plan({.width = 130}, 2).ok());
}

TEST_CASE("the digest changes with any dimension and with the fragments") {
  const LlamaConfig base{.layers = 4};
  std::vector<LlamaConfig> configs(12, base);
  configs[1].vocabulary += 1;
  configs[2].width *= 2;
  configs[3].layers += 1;
  configs[4].heads = 2;
  configs[5].kv_heads = 1;
  configs[6].ffn += 1;
  configs[7].context += 1;
  configs[8].rope_theta = 20000.0F;
  configs[9].norm_epsilon = 1e-6F;
  configs[10].tied_head = false;
  configs[11].rope_factor = 8.0F;
  std::set<std::uint64_t> digests;
  for (const LlamaConfig& config : configs) digests.insert(plan(config, 3).digest());
  digests.insert(plan(base, 4).digest());
  CHECK(digests.size() == configs.size() + 1);
  CHECK(plan(base, 3).digest() == plan(base, 3).digest());
}

TEST_CASE("first values are the same on every machine and for any number of fragments") {
  const LlamaConfig config{.vocabulary = 64, .width = 32, .layers = 3, .ffn = 48};
  const ParamLayout whole = plan(config, 1), split = plan(config, 3);
  std::vector<float> params(whole.elements()), other(split.elements());
  initialise(whole, 42, params);
  initialise(split, 42, other);
  CHECK(digest(std::as_bytes(std::span(params))) == 3055924378172522642U);
  for (const ParamSlot& slot : whole.slots()) {
    CAPTURE(slot.name);
    const std::size_t moved = split.find(slot.name)->range.first;
    CHECK(std::memcmp(&params[slot.range.first], &other[moved], slot.range.count * sizeof(float)) ==
          0);
  }
  initialise(whole, 43, other);
  CHECK(params != other);
}

TEST_CASE("first values have the deviations they should and gains are one") {
  const LlamaConfig config{.layers = 8};
  const ParamLayout layout = plan(config, 3);
  std::vector<float> params(layout.elements());
  initialise(layout, 1, params);
  for (const ParamSlot& slot : layout.slots()) {
    CAPTURE(slot.name);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < slot.range.count; ++i) {
      const double value = params[slot.range.first + i];
      sum += value;
      squares += value * value;
    }
    const auto count = static_cast<double>(slot.range.count);
    if (slot.shape.rank == 1) {
      CHECK(sum == count);
      CHECK(squares == count);
      continue;
    }
    const bool residual = slot.name.find("o_proj") != std::string::npos ||
                          slot.name.find("down_proj") != std::string::npos;
    const double deviation = residual ? 0.02 / 4 : 0.02;  // sqrt(2 * 8) = 4
    CHECK(sum / count == doctest::Approx(0).scale(deviation).epsilon(0.05));
    CHECK(std::sqrt(squares / count) == doctest::Approx(deviation).epsilon(0.03));
  }
}

}  // namespace starling::model

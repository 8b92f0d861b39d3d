#include "optim/inner_adamw.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace starling::optim {

namespace {

bool is_fraction(float value) { return value >= 0.0f && value < 1.0f; }

Status check_config(const InnerConfig& config) {
  const auto refuse = [](const char* what) { return Error(ErrorCode::kInvalidConfig, what); };
  if (!is_fraction(config.beta1)) return refuse("beta1 must be in [0, 1)");
  if (!is_fraction(config.beta2)) return refuse("beta2 must be in [0, 1)");
  if (!(config.epsilon > 0.0f)) return refuse("epsilon must be positive");
  if (!(config.weight_decay >= 0.0f)) return refuse("weight_decay must not be negative");
  if (!(config.clip_norm >= 0.0f)) return refuse("clip_norm must not be negative");
  return ok_status();
}

Status check_ranges(std::span<const DecayRange> ranges, std::size_t elements) {
  std::size_t covered = 0;
  for (const DecayRange& range : ranges) {
    if (range.first != covered || range.count > elements - covered) {
      return Error(ErrorCode::kInvalidConfig,
                   "decay ranges are not consecutive at element " + std::to_string(range.first));
    }
    covered += range.count;
  }
  if (covered != elements) {
    return Error(ErrorCode::kInvalidConfig, "decay ranges end at element " +
                                                std::to_string(covered) + " of " +
                                                std::to_string(elements));
  }
  return ok_status();
}

// As AdamWRange has them.
std::vector<std::size_t> borders_of(std::span<const DecayRange> ranges) {
  std::vector<std::size_t> borders;
  bool decays = true;
  for (const DecayRange& range : ranges) {
    if (range.count == 0 || range.decays == decays) continue;
    borders.push_back(range.first);
    decays = range.decays;
  }
  return borders;
}

}  // namespace

Result<InnerAdamW> InnerAdamW::create(const InnerConfig& config, std::size_t elements,
                                      std::span<const DecayRange> ranges, Device& device,
                                      FlatOps& ops) {
  if (auto checked = check_config(config); !checked.ok()) return std::move(checked).error();
  if (auto checked = check_ranges(ranges, elements); !checked.ok()) {
    return std::move(checked).error();
  }
  const std::vector<std::size_t> borders = borders_of(ranges);
  const auto border_bytes = std::as_bytes(std::span(borders));
  Buffers buffers;
  const std::size_t bytes = elements * sizeof(float);
  const struct {
    Buffer& target;
    MemoryKind kind;
    std::size_t bytes;
  } wanted[] = {{buffers.moment1, MemoryKind::kDevice, bytes},
                {buffers.moment2, MemoryKind::kDevice, bytes},
                {buffers.squared_norm, MemoryKind::kDevice, sizeof(float)},
                {buffers.host_norm, MemoryKind::kHostPinned, sizeof(float)},
                {buffers.borders, MemoryKind::kDevice, border_bytes.size()}};
  for (const auto& want : wanted) {
    auto buffer = device.allocate(want.kind, want.bytes);
    if (!buffer.ok()) return std::move(buffer).error().with_context("state of the optimizer");
    want.target = std::move(buffer).value();
  }
  device.copy_in(Lane::kCompute, buffers.borders.as<std::byte>(), border_bytes);
  device.drain();
  return InnerAdamW(config, elements, borders.size(), device, ops, std::move(buffers));
}

InnerAdamW::InnerAdamW(const InnerConfig& config, std::size_t elements, std::size_t borders,
                       Device& device, FlatOps& ops, Buffers buffers)
    : config_(config),
      elements_(elements),
      border_count_(borders),
      device_(device),
      ops_(ops),
      moment1_(std::move(buffers.moment1)),
      moment2_(std::move(buffers.moment2)),
      squared_norm_(std::move(buffers.squared_norm)),
      host_norm_(std::move(buffers.host_norm)),
      borders_(std::move(buffers.borders)) {}

void InnerAdamW::step(std::uint64_t step_number, float learning_rate, const Arrays& arrays) {
  STARLING_ASSERT(step_number >= 1);
  STARLING_ASSERT(arrays.params.size == elements_);
  STARLING_ASSERT(arrays.gradients.size == elements_);
  const auto steps = static_cast<double>(step_number);
  const double correction1 = 1.0 - std::pow(static_cast<double>(config_.beta1), steps);
  const double correction2 = 1.0 - std::pow(static_cast<double>(config_.beta2), steps);
  AdamWScalars scalars;
  scalars.beta1 = config_.beta1;
  scalars.beta2 = config_.beta2;
  scalars.epsilon = config_.epsilon;
  scalars.decay_factor = 1.0f - learning_rate * config_.weight_decay;
  scalars.step_size = static_cast<float>(learning_rate / correction1);
  scalars.moment2_root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
  scalars.clip_norm = config_.clip_norm;

  const DeviceSpan<float> squared_norm = squared_norm_.as<float>().subspan(0, 1);
  ops_.squared_norm(Lane::kCompute, squared_norm, arrays.gradients);
  ops_.adamw(Lane::kCompute, scalars,
             {.param = arrays.params,
              .moment1 = first_moment(),
              .moment2 = second_moment(),
              .gradient = arrays.gradients,
              .squared_norm = squared_norm,
              .borders = borders_.as<std::size_t>().subspan(0, border_count_),
              .rounded = arrays.rounded});
  const std::span<std::byte> host(static_cast<std::byte*>(host_norm_.data()), sizeof(float));
  device_.copy_out(Lane::kCompute, host, squared_norm_.as<std::byte>().subspan(0, sizeof(float)));
  norm_copied_ = device_.record(Lane::kCompute);
}

float InnerAdamW::norm() {
  while (!device_.reached(norm_copied_)) {
  }
  float squared = 0.0f;
  std::memcpy(&squared, host_norm_.data(), sizeof(squared));
  return std::sqrt(squared);
}

}  // namespace starling::optim

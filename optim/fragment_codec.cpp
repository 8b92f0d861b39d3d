#include "optim/fragment_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/assert.h"
#include "optim/lattice_codec.h"
#include "optim/plain_codec.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian");

constexpr std::uint8_t kVersion = 1;

struct Header {
  std::uint8_t format = 0;
  std::uint8_t version = kVersion;
  std::uint16_t reserved = 0;
  std::uint32_t parameters = 0;
  float clip_factor = 1.0f;
};
static_assert(sizeof(Header) == kPayloadHeaderBytes);

using SizeOf = std::size_t (*)(WireFormat, std::size_t);

Header write_header(WireFormat format, std::size_t parameters, float clip_factor,
                    std::span<std::byte> out) {
  Header header;
  header.format = static_cast<std::uint8_t>(format);
  header.parameters = static_cast<std::uint32_t>(parameters);
  header.clip_factor = clip_factor;
  std::memcpy(out.data(), &header, sizeof(header));
  return header;
}

// Believes nothing: after this, format and length fit each other and the stripe.
Result<Header> read_header(std::span<const std::byte> payload, std::size_t parameters,
                           SizeOf size_of) {
  const auto refuse = [](std::string what) { return Error(ErrorCode::kProtocol, std::move(what)); };
  if (payload.size() < kPayloadHeaderBytes) return refuse("payload shorter than its header");
  Header header;
  std::memcpy(&header, payload.data(), sizeof(header));
  if (header.format >= kWireFormats.size()) {
    return refuse("unknown wire format " + std::to_string(header.format));
  }
  if (header.version != kVersion || header.reserved != 0) {
    return refuse("unknown payload version " + std::to_string(header.version));
  }
  if (header.parameters != parameters) {
    return refuse("payload of " + std::to_string(header.parameters) + " parameters, not " +
                  std::to_string(parameters));
  }
  if (!(header.clip_factor > 0.0f && header.clip_factor <= 1.0f)) {
    return refuse("clip factor out of range");
  }
  const std::size_t expected = size_of(static_cast<WireFormat>(header.format), parameters);
  if (payload.size() != expected) {
    return refuse("payload of " + std::to_string(payload.size()) + " bytes, not " +
                  std::to_string(expected));
  }
  return header;
}

float clip_factor_for(double rms, float radius) {
  if (!(radius > 0.0f) || rms <= radius) return 1.0f;
  const auto factor = static_cast<float>(radius / rms);
  return std::max(factor, std::numeric_limits<float>::min());
}

// What the sums come to when the difference is multiplied by `scale`.
DeltaReport report_of(const Header& header, const StripeSums& sums, std::size_t parameters,
                      float scale) {
  DeltaReport report;
  report.rms = scale * root_mean(sums.difference, parameters);
  report.max_abs = scale * sums.max_abs;
  report.own_rms = root_mean(sums.own, parameters);
  report.clip_factor = header.clip_factor;
  report.blocks = static_cast<std::uint32_t>(block_count(parameters));
  report.blocks_skipped = sums.blocks_skipped;
  report.format = static_cast<WireFormat>(header.format);
  return report;
}

void check_stripe(std::size_t parameters) {
  STARLING_ASSERT(parameters >= 1);
  STARLING_ASSERT(parameters <= kStripeParameters);
}

}  // namespace

std::size_t push_bytes(WireFormat format, std::size_t parameters) {
  check_stripe(parameters);
  return kPayloadHeaderBytes + (is_modular(format)
                                    ? lattice_codec::push_body_bytes(format, parameters)
                                    : parameters * static_cast<std::size_t>(code_bits(format)) / 8);
}

std::size_t delta_bytes(WireFormat format, std::size_t parameters) {
  check_stripe(parameters);
  return is_modular(format)
             ? kPayloadHeaderBytes + lattice_codec::delta_body_bytes(format, parameters)
             : push_bytes(format, parameters);
}

Status encode_push(WireFormat format, std::uint64_t key, std::span<const float> slow,
                   std::span<const std::int8_t> exponents, std::span<std::byte> out) {
  STARLING_ASSERT(out.size() == push_bytes(format, slow.size()));
  const std::span<std::byte> body = out.subspan(kPayloadHeaderBytes);
  write_header(format, slow.size(), 1.0f, out);
  return is_modular(format) ? lattice_codec::encode_push(format, key, slow, exponents, body)
                            : plain_codec::encode_push(format, slow, body);
}

Result<WireFormat> push_format(std::span<const std::byte> push, std::size_t parameters) {
  check_stripe(parameters);
  auto header = read_header(push, parameters, push_bytes);
  if (!header.ok()) return std::move(header).error();
  if (header.value().clip_factor != 1.0f) {
    return Error(ErrorCode::kProtocol, "only a difference can be clipped");
  }
  return static_cast<WireFormat>(header.value().format);
}

Result<WireFormat> delta_format(std::span<const std::byte> delta, std::size_t parameters) {
  check_stripe(parameters);
  auto header = read_header(delta, parameters, delta_bytes);
  if (!header.ok()) return std::move(header).error();
  return static_cast<WireFormat>(header.value().format);
}

Result<DeltaReport> make_delta(std::uint64_t key, std::span<const std::byte> push,
                               std::span<const float> slow, float clip_radius,
                               std::span<std::byte> out, std::span<BlockReport> blocks) {
  auto checked = push_format(push, slow.size());
  if (!checked.ok()) return std::move(checked).error();
  const WireFormat format = checked.value();
  STARLING_ASSERT(out.size() == delta_bytes(format, slow.size()));
  STARLING_ASSERT(blocks.empty() || blocks.size() == block_count(slow.size()));
  const std::span<const std::byte> pushed = push.subspan(kPayloadHeaderBytes);
  const std::span<std::byte> body = out.subspan(kPayloadHeaderBytes);
  auto sums = is_modular(format)
                  ? lattice_codec::make_delta(format, key, pushed, slow, body, blocks)
                  : plain_codec::make_delta(format, pushed, slow, body, blocks);
  if (!sums.ok()) return std::move(sums).error();
  const float factor =
      clip_factor_for(root_mean(sums.value().difference, slow.size()), clip_radius);
  if (factor < 1.0f) {
    // The codes of a lattice stay as they are: their steps become shorter.
    if (!is_modular(format)) plain_codec::clip_delta(format, factor, pushed, slow, body);
    for (BlockReport& block : blocks) {
      block.sum_of_squares *= double{factor} * factor;
      block.max_abs *= factor;
    }
  }
  return report_of(write_header(format, slow.size(), factor, out), sums.value(), slow.size(),
                   factor);
}

Result<DeltaReport> decode_delta(std::span<const std::byte> delta, std::span<float> difference,
                                 std::span<BlockReport> blocks, std::span<const float> slow) {
  check_stripe(difference.size());
  STARLING_ASSERT(blocks.empty() || blocks.size() == block_count(difference.size()));
  STARLING_ASSERT(slow.empty() || slow.size() == difference.size());
  auto header = read_header(delta, difference.size(), delta_bytes);
  if (!header.ok()) return std::move(header).error();
  const auto format = static_cast<WireFormat>(header.value().format);
  const std::span<const std::byte> body = delta.subspan(kPayloadHeaderBytes);
  auto sums = is_modular(format)
                  ? lattice_codec::decode_delta(format, header.value().clip_factor, body, slow,
                                                difference, blocks)
                  : plain_codec::decode_delta(format, body, slow, difference, blocks);
  if (!sums.ok()) return std::move(sums).error();
  return report_of(header.value(), sums.value(), difference.size(), 1.0f);
}

}  // namespace starling::optim

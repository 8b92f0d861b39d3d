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

void write_header(WireFormat format, std::size_t parameters, float clip_factor,
                  std::span<std::byte> out) {
  Header header;
  header.format = static_cast<std::uint8_t>(format);
  header.parameters = static_cast<std::uint32_t>(parameters);
  header.clip_factor = clip_factor;
  std::memcpy(out.data(), &header, sizeof(header));
}

// Believes nothing: after this, format and length fit each other and the stripe.
Result<Header> read_header(std::span<const std::byte> payload, std::size_t parameters,
                           SizeOf size_of) {
  const auto refuse = [](std::string what) { return Error(ErrorCode::kProtocol, std::move(what)); };
  if (payload.size() < kPayloadHeaderBytes) return refuse("payload shorter than its header");
  Header header;
  std::memcpy(&header, payload.data(), sizeof(header));
  if (header.format > static_cast<std::uint8_t>(WireFormat::kMod4)) {
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

double root_mean(double sum_of_squares, std::size_t count) {
  return std::sqrt(sum_of_squares / static_cast<double>(count));
}

DeltaReport blank_report(WireFormat format, float clip_factor, std::size_t parameters) {
  DeltaReport report;
  report.clip_factor = clip_factor;
  report.blocks = static_cast<std::uint32_t>(block_count(parameters));
  report.format = format;
  return report;
}

void check_stripe(std::size_t parameters) {
  STARLING_ASSERT(parameters >= 1);
  STARLING_ASSERT(parameters <= kStripeParameters);
}

Result<DeltaReport> plain_report(Result<VectorStats> stats, std::size_t parameters,
                                 DeltaReport report) {
  if (!stats.ok()) return std::move(stats).error();
  report.rms = root_mean(stats.value().sum_of_squares, parameters);
  report.max_abs = stats.value().max_abs;
  return report;
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
                               std::span<float> difference, std::span<std::byte> out,
                               std::span<float> skipped_reach) {
  auto checked = push_format(push, slow.size());
  if (!checked.ok()) return std::move(checked).error();
  const WireFormat format = checked.value();
  STARLING_ASSERT(difference.size() == slow.size());
  STARLING_ASSERT(out.size() == delta_bytes(format, slow.size()));
  const std::span<const std::byte> pushed = push.subspan(kPayloadHeaderBytes);
  const std::span<std::byte> body = out.subspan(kPayloadHeaderBytes);
  const auto clip = [&](double sum_of_squares) {
    return clip_factor_for(root_mean(sum_of_squares, slow.size()), clip_radius);
  };
  if (is_modular(format)) {
    auto summary = lattice_codec::make_delta(format, key, pushed, slow, body);
    if (!summary.ok()) return std::move(summary).error();
    write_header(format, slow.size(), clip(summary.value().sum_of_squares), out);
    return decode_delta(out, slow.size(), difference, skipped_reach);
  }
  auto stats = plain_codec::subtract(format, pushed, slow, difference);
  if (!stats.ok()) return std::move(stats).error();
  const float clip_factor = clip(stats.value().sum_of_squares);
  write_header(format, slow.size(), clip_factor, out);
  stats = plain_codec::write_delta(format, clip_factor, difference, body);
  std::fill(skipped_reach.begin(), skipped_reach.end(), 0.0f);
  return plain_report(std::move(stats), slow.size(),
                      blank_report(format, clip_factor, slow.size()));
}

Result<DeltaReport> decode_delta(std::span<const std::byte> delta, std::size_t parameters,
                                 std::span<float> difference, std::span<float> skipped_reach) {
  check_stripe(parameters);
  STARLING_ASSERT(difference.size() == parameters);
  STARLING_ASSERT(skipped_reach.empty() || skipped_reach.size() == block_count(parameters));
  auto header = read_header(delta, parameters, delta_bytes);
  if (!header.ok()) return std::move(header).error();
  DeltaReport report = blank_report(static_cast<WireFormat>(header.value().format),
                                    header.value().clip_factor, parameters);
  const std::span<const std::byte> body = delta.subspan(kPayloadHeaderBytes);
  if (is_modular(report.format)) {
    auto summary = lattice_codec::decode_delta(report.format, report.clip_factor, body, difference,
                                               skipped_reach);
    if (!summary.ok()) return std::move(summary).error();
    report.rms = report.clip_factor * root_mean(summary.value().sum_of_squares, parameters);
    report.max_abs = report.clip_factor * summary.value().max_abs;
    report.blocks_skipped = summary.value().blocks_skipped;
    return report;
  }
  std::fill(skipped_reach.begin(), skipped_reach.end(), 0.0f);
  return plain_report(plain_codec::decode_delta(report.format, body, difference), parameters,
                      report);
}

}  // namespace starling::optim

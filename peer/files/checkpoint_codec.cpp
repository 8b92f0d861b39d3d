#include "peer/files/checkpoint_codec.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "peer/io/byte_codec.h"

namespace starling::peer {

Error senseless_section(std::string_view section) {
  return Error(ErrorCode::kCorrupt, fmt::format("section '{}' makes no sense", section));
}

namespace {

// No damage: somebody wrote it so. A number like that must not reach the optimizer.
Error impossible(std::string_view what) {
  return Error(ErrorCode::kCorrupt,
               fmt::format("section 'progress' says {}: no training gets there", what));
}

void put(ByteWriter& writer, const gossip::PeerKey& key) {
  writer.put(key.id.value);
  writer.put(key.incarnation);
}

gossip::PeerKey get_key(ByteReader& reader) {
  gossip::PeerKey key;
  key.id.value = reader.get<std::uint64_t>();
  key.incarnation = reader.get<std::uint64_t>();
  return key;
}

template <std::size_t Size>
void get_bytes(ByteReader& reader, std::array<std::uint8_t, Size>& bytes) {
  const auto taken = reader.take(Size);
  if (!taken.empty()) std::memcpy(bytes.data(), taken.data(), Size);
}

void put(ByteWriter& writer, const gossip::StripeRef& ref) {
  put(writer, ref.exchange.initiator);
  put(writer, ref.exchange.responder);
  writer.put(ref.exchange.counter);
  writer.put(ref.fragment.value);
  writer.put(ref.stripe);
  writer.put(ref.attempt);
}

gossip::StripeRef get_ref(ByteReader& reader) {
  gossip::StripeRef ref;
  ref.exchange.initiator = get_key(reader);
  ref.exchange.responder = get_key(reader);
  ref.exchange.counter = reader.get<std::uint64_t>();
  ref.fragment.value = reader.get<std::uint16_t>();
  ref.stripe = reader.get<std::uint32_t>();
  ref.attempt = reader.get<std::uint8_t>();
  return ref;
}

constexpr std::size_t kRefBytes = 2 * 16 + 8 + 2 + 4 + 1;
constexpr std::size_t kLedgerRowBytes = kRefBytes + 1;
constexpr std::size_t kUnsettledBytesMin = kRefBytes + 4 * 4 + 4;
constexpr std::size_t kTokenEntryBytes =
    sizeof(gossip::PublicKey) + 8 + 8 + 4 + sizeof(gossip::Signature);
constexpr std::size_t kOpenPartBytes = 2 + 2 + 8;
constexpr std::size_t kPartBytes = 2 + 2;
constexpr double kSecondsMax = 1e11;  // the year 5138

// The count in front of a list; 0 and a failed reader if that many records cannot follow.
std::uint64_t get_count(ByteReader& reader, std::size_t record_bytes_min) {
  const auto count = reader.get<std::uint64_t>();
  if (count > reader.remaining() / record_bytes_min) {
    (void)reader.take(reader.remaining() + 1);
    return 0;
  }
  return count;
}

bool complete(const ByteReader& reader) { return reader.ok() && reader.remaining() == 0; }

bool sane(const gossip::PairTerms& terms) {
  for (const float value :
       {terms.mixing, terms.initiator_weight, terms.responder_weight, terms.clip_radius}) {
    if (!std::isfinite(value) || value < 0) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> encode(const TrainerProgress& progress) {
  ByteWriter writer;
  writer.put(progress.steps);
  writer.put(progress.tokens);
  writer.put(progress.batches);
  writer.put(progress.steps_at_join);
  writer.put(progress.clock);
  writer.put(progress.inherited);
  return std::move(writer).take();
}

Result<TrainerProgress> decode_progress(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  TrainerProgress progress;
  progress.steps = reader.get<std::uint64_t>();
  progress.tokens = reader.get<std::uint64_t>();
  progress.batches = reader.get<std::uint64_t>();
  progress.steps_at_join = reader.get<std::uint64_t>();
  progress.clock = reader.get<double>();
  progress.inherited = reader.get<std::uint64_t>();
  if (!complete(reader)) return senseless_section("progress");
  if (!std::isfinite(progress.clock) || progress.clock < 0) return senseless_section("progress");
  // Those behind a state that was fetched, and as many of its own.
  constexpr std::uint64_t kStepsMax = 2 * gossip::kStepsOfStateMax;
  if (progress.steps > kStepsMax || progress.steps_at_join > progress.steps) {
    return impossible(
        fmt::format("{} steps, {} of them at the join", progress.steps, progress.steps_at_join));
  }
  if (progress.tokens > gossip::kTokensOfProcessMax ||
      progress.inherited > gossip::kTokensOfProcessMax) {
    return impossible(
        fmt::format("{} tokens and {} inherited", progress.tokens, progress.inherited));
  }
  return progress;
}

std::vector<std::byte> encode(const DataPosition& position) {
  STARLING_ASSERT(position.passes.size() == position.own_passes.size());
  ByteWriter writer;
  writer.put(position.space);
  writer.put(position.drawn);
  writer.put(static_cast<std::uint64_t>(position.open.size()));
  for (const OpenPart& open : position.open) {
    writer.put(open.part);
    writer.put(open.passes);
    writer.put(open.read);
  }
  writer.put(static_cast<std::uint64_t>(position.passes.size()));
  for (std::size_t part = 0; part < position.passes.size(); ++part) {
    writer.put(position.passes[part]);
    writer.put(position.own_passes[part]);
  }
  return std::move(writer).take();
}

Result<DataPosition> decode_data(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  DataPosition position;
  position.space = reader.get<std::uint64_t>();
  position.drawn = reader.get<std::uint64_t>();
  const std::uint64_t open_parts = get_count(reader, kOpenPartBytes);
  for (std::uint64_t i = 0; i < open_parts; ++i) {
    OpenPart open;
    open.part = reader.get<std::uint16_t>();
    open.passes = reader.get<std::uint16_t>();
    open.read = reader.get<std::uint64_t>();
    if (!position.open.try_push(open)) return senseless_section("data");
  }
  const std::uint64_t parts = get_count(reader, kPartBytes);
  if (parts > gossip::kPartsMax) return senseless_section("data");
  for (std::uint64_t i = 0; i < parts; ++i) {
    position.passes.push_back(reader.get<std::uint16_t>());
    position.own_passes.push_back(reader.get<std::uint16_t>());
  }
  if (!complete(reader)) return senseless_section("data");
  return position;
}

std::vector<std::byte> encode(std::span<const gossip::LedgerRow> rows) {
  ByteWriter writer;
  writer.put(static_cast<std::uint64_t>(rows.size()));
  for (const gossip::LedgerRow& row : rows) {
    put(writer, row.ref);
    writer.put(static_cast<std::uint8_t>(row.role));
  }
  return std::move(writer).take();
}

Result<std::vector<gossip::LedgerRow>> decode_ledger(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<gossip::LedgerRow> rows(get_count(reader, kLedgerRowBytes));
  for (gossip::LedgerRow& row : rows) {
    row.ref = get_ref(reader);
    const auto role = reader.get<std::uint8_t>();
    if (role > static_cast<std::uint8_t>(gossip::Role::kResponder))
      return senseless_section("ledger");
    row.role = static_cast<gossip::Role>(role);
  }
  if (!complete(reader)) return senseless_section("ledger");
  return rows;
}

std::vector<std::byte> encode(std::span<const UnsettledDelta> deltas) {
  ByteWriter writer;
  writer.put(static_cast<std::uint64_t>(deltas.size()));
  for (const UnsettledDelta& delta : deltas) {
    put(writer, delta.ref);
    writer.put(delta.terms.mixing);
    writer.put(delta.terms.initiator_weight);
    writer.put(delta.terms.responder_weight);
    writer.put(delta.terms.clip_radius);
    writer.put(static_cast<std::uint32_t>(delta.payload.size()));
    writer.append(delta.payload);
  }
  return std::move(writer).take();
}

Result<std::vector<UnsettledDelta>> decode_unsettled(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<UnsettledDelta> deltas(get_count(reader, kUnsettledBytesMin));
  for (UnsettledDelta& delta : deltas) {
    delta.ref = get_ref(reader);
    delta.terms.mixing = reader.get<float>();
    delta.terms.initiator_weight = reader.get<float>();
    delta.terms.responder_weight = reader.get<float>();
    delta.terms.clip_radius = reader.get<float>();
    const auto payload = reader.take(reader.get<std::uint32_t>());
    if (!reader.ok() || !sane(delta.terms)) return senseless_section("unsettled");
    delta.payload.assign(payload.begin(), payload.end());
  }
  if (!complete(reader)) return senseless_section("unsettled");
  return deltas;
}

std::vector<std::byte> encode(std::span<const gossip::TokenEntry> entries) {
  ByteWriter writer;
  writer.put(static_cast<std::uint64_t>(entries.size()));
  for (const gossip::TokenEntry& entry : entries) {
    writer.append(std::as_bytes(std::span(entry.owner.bytes)));
    writer.put(entry.key.incarnation);
    writer.put(entry.tokens);
    writer.put(entry.rate);
    writer.append(std::as_bytes(std::span(entry.signature)));
  }
  return std::move(writer).take();
}

Result<std::vector<gossip::TokenEntry>> decode_tokens(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<gossip::TokenEntry> entries(get_count(reader, kTokenEntryBytes));
  for (gossip::TokenEntry& entry : entries) {
    get_bytes(reader, entry.owner.bytes);
    entry.key = {gossip::id_of(entry.owner), reader.get<std::uint64_t>()};
    entry.tokens = reader.get<std::uint64_t>();
    entry.rate = reader.get<float>();
    if (!std::isfinite(entry.rate) || entry.rate < 0) return senseless_section("tokens");
    get_bytes(reader, entry.signature);
  }
  if (!complete(reader)) return senseless_section("tokens");
  return entries;
}

std::vector<std::byte> encode(const CheckpointAge& age) {
  ByteWriter writer;
  writer.put(age.written);
  writer.put(age.missed);
  return std::move(writer).take();
}

Result<CheckpointAge> decode_age(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  CheckpointAge age;
  age.written = reader.get<double>();
  age.missed = reader.get<double>();
  if (!complete(reader)) return senseless_section("age");
  for (const double seconds : {age.written, age.missed}) {
    if (!(seconds >= 0 && seconds <= kSecondsMax)) return senseless_section("age");
  }
  return age;
}

Result<std::vector<float>> decode_scales(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(float) != 0) return senseless_section("scales");
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace starling::peer

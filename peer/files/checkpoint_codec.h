// The small sections of a checkpoint (checkpoint_parts.h) as bytes, and back. Decoding takes them
// as foreign: counts are bounded by the section's length before anything is allocated, enumerations
// and floats are checked. Errors: kCorrupt, with the section's name. Any thread; plain values.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/files/checkpoint_image.h"

namespace starling::peer {

std::vector<std::byte> encode(const TrainerProgress& progress);
std::vector<std::byte> encode(const DataPosition& position);
std::vector<std::byte> encode(std::span<const gossip::LedgerRow> rows);
std::vector<std::byte> encode(std::span<const UnsettledDelta> deltas);
std::vector<std::byte> encode(std::span<const gossip::TokenEntry> entries);
std::vector<std::byte> encode(const CheckpointAge& age);
Result<TrainerProgress> decode_progress(std::span<const std::byte> bytes);
Result<DataPosition> decode_data(std::span<const std::byte> bytes);
Result<std::vector<gossip::LedgerRow>> decode_ledger(std::span<const std::byte> bytes);
Result<std::vector<UnsettledDelta>> decode_unsettled(std::span<const std::byte> bytes);
Result<std::vector<gossip::TokenEntry>> decode_tokens(std::span<const std::byte> bytes);
Result<CheckpointAge> decode_age(std::span<const std::byte> bytes);
Result<std::vector<float>> decode_scales(std::span<const std::byte> bytes);
// What all of them answer for bytes that are none of theirs.
Error senseless_section(std::string_view section);

}  // namespace starling::peer

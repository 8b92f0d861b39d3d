#include "peer/states/served_state.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstring>

#include "peer/files/checkpoint_parts.h"

namespace starling::peer {

namespace {

// The part of the manifest that piece number `piece` asks for.
std::uint32_t part_of(std::uint32_t piece) { return piece - gossip::kManifestPiece; }

}  // namespace

Result<ServedState> ServedState::open(const std::filesystem::path& path, const StatePlan& plan,
                                      const CheckpointDigests& expected) {
  if (plan.manifest_parts() > gossip::kManifestPartsMax) {
    return Error(ErrorCode::kExhausted, "the model is too large to be given to newcomers");
  }
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  ServedState state(path, std::move(file).value(), plan);
  Status found = state.find_sections(expected);
  if (!found.ok()) return std::move(found).error().with_context(path.string());
  Status made = state.make_manifest();
  if (!made.ok()) return std::move(made).error();
  return state;
}

Status ServedState::find_sections(const CheckpointDigests& expected) {
  auto size = file_size(file_, path_);
  if (!size.ok()) return std::move(size).error();
  auto file = CheckpointFile::open(
      SectionSource{size.value(), [this](std::uint64_t offset, std::span<std::byte> target) {
                      return read_at(file_, path_, offset, target);
                    }});
  if (!file.ok()) return std::move(file).error();
  const CheckpointHeader& header = file.value().header();
  if (header.digests != expected) {
    return Error(ErrorCode::kIncompatible, "a checkpoint of another run or model");
  }
  for (std::size_t section = 0; section < kStateSectionNames.size(); ++section) {
    const std::string_view name = kStateSectionNames[section];
    const auto bytes = file.value().section_bytes(name);
    if (!bytes) {
      return Error(ErrorCode::kNotFound, fmt::format("it has no section '{}'", name));
    }
    if (*bytes != plan_.parameters() * sizeof(float)) {
      return Error(ErrorCode::kIncompatible, fmt::format("section '{}' has a wrong size", name));
    }
    offsets_[section] = *file.value().section_offset(name);
  }
  auto progress = read_progress(file.value());
  if (!progress.ok()) return std::move(progress).error();
  offer_.step = progress.value().steps;
  offer_.tokens = progress.value().tokens + progress.value().inherited;
  return ok_status();
}

Status ServedState::make_manifest() {
  std::vector<float> values(plan_.bytes_max() / sizeof(float));
  SketchBuilder sketch;
  for (std::uint32_t piece = 0; piece < plan_.pieces(); ++piece) {
    const StatePiece place = plan_.piece(piece);
    const auto floats = std::span(values).first(place.range.count);
    const auto bytes = std::as_writable_bytes(floats);
    Status done = read_at(file_, path_, offsets_[place.section] + place.offset(), bytes);
    if (!done.ok()) return done;
    manifest_.push_back(piece_digest(bytes));
    if (place.section == 0) sketch.add(place.range.first, floats);
  }
  offer_.sketch = sketch.value();
  for (std::uint32_t part = 0; part < plan_.manifest_parts(); ++part) {
    const auto digests = std::span(manifest_).subspan(std::size_t{part} * gossip::kDigestsPerPart,
                                                      plan_.digests_in(part));
    STARLING_ASSERT(offer_.manifest.try_push(piece_digest(std::as_bytes(digests))));
  }
  // Its name follows from its contents: after a restart the same file is the same snapshot.
  const auto whole =
      piece_digest(std::as_bytes(std::span(offer_.manifest.begin(), offer_.manifest.size())));
  std::memcpy(&offer_.snapshot, whole.bytes.data(), sizeof offer_.snapshot);
  if (offer_.snapshot == 0) offer_.snapshot = 1;
  return ok_status();
}

std::size_t ServedState::piece_bytes(std::uint32_t piece) const {
  if (piece < plan_.pieces()) return plan_.piece(piece).bytes();
  if (piece < gossip::kManifestPiece || part_of(piece) >= plan_.manifest_parts()) return 0;
  return plan_.digests_in(part_of(piece)) * sizeof(gossip::StateDigest);
}

Status ServedState::read(std::uint32_t piece, std::span<std::byte> target) const {
  STARLING_ASSERT(target.size() == piece_bytes(piece));
  if (piece < plan_.pieces()) {
    const StatePiece place = plan_.piece(piece);
    return read_at(file_, path_, offsets_[place.section] + place.offset(), target);
  }
  const auto* first = manifest_.data() + std::size_t{part_of(piece)} * gossip::kDigestsPerPart;
  std::memcpy(target.data(), first, target.size());
  return ok_status();
}

}  // namespace starling::peer

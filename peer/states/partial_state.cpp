#include "peer/states/partial_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>

#include "base/hash.h"
#include "base/log.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;
using gossip::PieceStored;

constexpr std::string_view kMagic = "STRLJOI1";
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kRecordBytes = 56;
constexpr std::uint32_t kStoredRecord = 1;
constexpr std::uint32_t kForgetRecord = 2;
// A piece is recorded at most a few times; a journal beyond this is not ours.
constexpr std::size_t kRecordsPerPieceMax = 64;

fs::path data_path(const fs::path& folder) { return folder / "state.data"; }
fs::path journal_path(const fs::path& folder) { return folder / "state.journal"; }

// Numbers that can be weights, or, of the section of second moments, squares.
bool plausible(std::uint32_t section, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (!std::isfinite(value) || (section == kSecondMoment && value < 0)) return false;
  }
  return true;
}

}  // namespace

Result<PartialState> PartialState::open(const fs::path& folder, const StatePlan& plan,
                                        const CheckpointDigests& digests, std::uint8_t sections) {
  auto created = create_folder(folder);
  if (!created.ok()) return std::move(created).error();
  PartialState state(folder, plan, sections);
  ByteWriter header;
  header.put_text(kMagic, kMagic.size());
  header.put(digests.run);
  header.put(digests.model);
  header.put(digests.layout);
  header.put(std::uint64_t{sections});
  header.put(digest(header.bytes()));
  Status opened = state.open_files(std::move(header));
  if (!opened.ok()) return std::move(opened).error();
  return state;
}

void PartialState::remove(const fs::path& folder) {
  // Emptied first: whoever still has the data open, as the desk does until the peer ends, would
  // hold its room on disk. It is absent if all was removed before.
  std::error_code not_emptied, failure;
  fs::resize_file(data_path(folder), 0, not_emptied);
  if (not_emptied && not_emptied != std::errc::no_such_file_or_directory) {
    log_warning("cannot empty {}: {}", data_path(folder).string(), not_emptied.message());
  }
  fs::remove_all(folder, failure);
  if (failure) log_warning("cannot remove {}: {}", folder.string(), failure.message());
}

// The journal is made anew, so that what was torn or dropped does not stand between old records
// and new ones.
Status PartialState::open_files(ByteWriter journal) {
  std::string text;
  const fs::path path = journal_path(folder_);
  const std::size_t bytes_max =
      kHeaderBytes + kRecordBytes * kRecordsPerPieceMax * std::size_t{plan_.pieces()};
  if (auto read = read_text(path, bytes_max); read.ok()) text = std::move(read).value();
  const auto bytes = std::as_bytes(std::span(std::as_const(text)));
  const auto header = journal.bytes();
  const bool ours =
      bytes.size() >= header.size() && std::equal(header.begin(), header.end(), bytes.begin());
  if (ours) replay(bytes.subspan(header.size()));
  const int fresh = ours ? 0 : O_TRUNC;
  auto data = FileHandle::open(data_path(folder_), O_RDWR | O_CREAT | fresh);
  if (!data.ok()) return std::move(data).error();
  data_ = std::move(data).value();
  drop_unconfirmed();
  for (std::uint32_t piece = 0; piece < plan_.pieces(); ++piece) {
    if (held_[piece].snapshot != 0) put_record(journal, kStoredRecord, piece, held_[piece]);
  }
  const auto whole = journal.bytes();
  Status replaced = replace_file(path, {reinterpret_cast<const char*>(whole.data()), whole.size()});
  if (!replaced.ok()) return replaced;
  auto opened = FileHandle::open(path, O_WRONLY | O_APPEND);
  if (!opened.ok()) return std::move(opened).error();
  journal_ = std::move(opened).value();
  return ok_status();
}

void PartialState::replay(std::span<const std::byte> records) {
  while (records.size() >= kRecordBytes) {
    const auto bytes = records.first(kRecordBytes);
    records = records.subspan(kRecordBytes);
    ByteReader reader(bytes);
    const auto kind = reader.get<std::uint32_t>();
    const auto piece = reader.get<std::uint32_t>();
    Held held{reader.get<std::uint64_t>(), {}};
    const auto stated = reader.take(sizeof held.digest.bytes);
    std::memcpy(held.digest.bytes.data(), stated.data(), stated.size());
    const auto sealed = bytes.first(kRecordBytes - sizeof(std::uint64_t));
    if (reader.get<std::uint64_t>() != digest(sealed)) return;
    if (kind == kStoredRecord && takes(piece)) held_[piece] = held;
    if (kind != kForgetRecord) continue;
    for (Held& one : held_) {
      if (held.snapshot == 0 || one.snapshot == held.snapshot) one = {};
    }
  }
}

// Keeps whole stripes of one snapshot whose bytes are what the journal says.
void PartialState::drop_unconfirmed() {
  std::vector<float> values(plan_.bytes_max() / sizeof(float));
  for (std::uint32_t stripe = 0; stripe < plan_.stripes(); ++stripe) {
    bool good = held_[stripe].snapshot != 0;
    for (const std::uint32_t piece : pieces_of(stripe)) {
      const auto floats = std::span(values).first(plan_.piece(piece).range.count);
      good = good && held_[piece].snapshot == held_[stripe].snapshot && read(piece, floats).ok();
    }
    if (good) continue;
    for (const std::uint32_t piece : pieces_of(stripe)) held_[piece] = {};
  }
}

std::vector<std::uint64_t> PartialState::held() const {
  std::vector<std::uint64_t> snapshots(plan_.stripes());
  for (std::uint32_t stripe = 0; stripe < plan_.stripes(); ++stripe) {
    snapshots[stripe] = held_[stripe].snapshot;
    for (const std::uint32_t piece : pieces_of(stripe)) {
      if (held_[piece].snapshot != snapshots[stripe]) snapshots[stripe] = 0;
    }
  }
  return snapshots;
}

PieceStored PartialState::store(const gossip::StorePiece& order, std::span<const std::byte> bytes) {
  if (order.piece >= gossip::kManifestPiece) return store_part(order, bytes);
  if (!takes(order.piece)) return PieceStored::kWrong;
  const Manifest* manifest = manifest_of(order);
  if (manifest == nullptr || !manifest->parts[order.piece / gossip::kDigestsPerPart]) {
    return PieceStored::kUnknown;
  }
  const StatePiece place = plan_.piece(order.piece);
  if (bytes.size() != place.bytes()) return PieceStored::kWrong;
  const gossip::StateDigest& expected = manifest->digests[order.piece];
  if (piece_digest(bytes) != expected) return PieceStored::kWrong;
  if (!plausible(place.section, bytes)) return PieceStored::kWrong;
  const Held held{order.snapshot, expected, order.from};
  Status stored = write_at(data_, data_path(folder_), offset_of(place), bytes);
  if (stored.ok()) stored = append(kStoredRecord, order.piece, held);
  if (!stored.ok()) {
    log_warning("a piece of the state was not stored: {}", stored.error().message());
    return PieceStored::kFailed;
  }
  held_[order.piece] = held;
  return PieceStored::kStored;
}

PieceStored PartialState::store_part(const gossip::StorePiece& order,
                                     std::span<const std::byte> bytes) {
  const std::uint32_t part = order.piece - gossip::kManifestPiece;
  if (part >= plan_.manifest_parts()) return PieceStored::kWrong;
  if (bytes.size() != plan_.digests_in(part) * sizeof(gossip::StateDigest)) {
    return PieceStored::kWrong;
  }
  if (piece_digest(bytes) != order.expected) return PieceStored::kWrong;
  Manifest* known = manifest_of(order);
  if (known == nullptr) {
    if (manifests_.size() == kManifestsMax) manifests_.pop_back();
    manifests_.push_front({order.from, order.snapshot,
                           std::vector<gossip::StateDigest>(plan_.pieces()),
                           std::vector<bool>(plan_.manifest_parts())});
    known = &manifests_.front();
  }
  auto* first = known->digests.data() + std::size_t{part} * gossip::kDigestsPerPart;
  std::memcpy(first, bytes.data(), bytes.size());
  known->parts[part] = true;
  return PieceStored::kStored;
}

// The journal forgets by the number alone: after a crash another donor's pieces of that number are
// fetched once more.
Status PartialState::forget(const gossip::ForgetPieces& order) {
  for (Held& held : held_) {
    const bool gave = held.from == order.from || held.from == PeerId{};
    if (order.snapshot == 0 || (gave && held.snapshot == order.snapshot)) held = {};
  }
  return append(kForgetRecord, 0, {order.snapshot, {}});
}

Result<bool> PartialState::check(const gossip::CheckState& order) const {
  std::vector<float> values(plan_.bytes_max() / sizeof(float));
  SketchBuilder sketch;
  for (std::uint32_t piece = 0; piece < plan_.stripes(); ++piece) {
    const model::Range range = plan_.piece(piece).range;
    const auto floats = std::span(values).first(range.count);
    Status done = read(piece, floats);
    if (!done.ok()) return std::move(done).error();
    sketch.add(range.first, floats);
  }
  const double apart = gossip::distance(sketch.value(), order.sketch);
  log_debug("the fetched weights are {:.4g} from the donors', {:.4g} of {:.4g} allowed", apart,
            order.distance_max, gossip::norm(order.sketch));
  return apart <= order.distance_max;
}

Status PartialState::load(CheckpointImage& image) const {
  std::array<std::vector<float>*, gossip::kStateSections> targets{
      &image.slow, &image.first_moment, &image.second_moment, &image.momentum};
  for (std::uint32_t piece = 0; piece < plan_.pieces(); ++piece) {
    if (!takes(piece)) continue;
    const StatePiece place = plan_.piece(piece);
    std::vector<float>& target = *targets[place.section];
    STARLING_ASSERT(target.size() == plan_.parameters());
    Status done = read(piece, std::span(target).subspan(place.range.first, place.range.count));
    if (!done.ok()) return done;
  }
  std::fill(image.momentum.begin(), image.momentum.end(), 0.0F);
  const bool squares = (sections_ >> kSecondMoment & 1U) != 0;
  if (squares) std::fill(image.first_moment.begin(), image.first_moment.end(), 0.0F);
  image.weights = image.slow;
  return ok_status();
}

void PartialState::put_record(ByteWriter& journal, std::uint32_t kind, std::uint32_t piece,
                              const Held& held) {
  ByteWriter record;
  record.put(kind);
  record.put(piece);
  record.put(held.snapshot);
  record.append(std::as_bytes(std::span(held.digest.bytes)));
  record.put(digest(record.bytes()));
  journal.append(record.bytes());
}

Status PartialState::append(std::uint32_t kind, std::uint32_t piece, const Held& held) {
  ByteWriter record;
  put_record(record, kind, piece, held);
  return write_all(journal_, journal_path(folder_), record.bytes());
}

PartialState::Manifest* PartialState::manifest_of(const gossip::StorePiece& order) {
  const auto found =
      std::find_if(manifests_.begin(), manifests_.end(), [&order](const Manifest& one) {
        return one.from == order.from && one.snapshot == order.snapshot;
      });
  if (found == manifests_.end()) return nullptr;
  std::rotate(manifests_.begin(), found, found + 1);
  return &manifests_.front();
}

bool PartialState::takes(std::uint32_t piece) const {
  return piece < plan_.pieces() && (sections_ >> plan_.piece(piece).section & 1U) != 0;
}

std::vector<std::uint32_t> PartialState::pieces_of(std::uint32_t stripe) const {
  std::vector<std::uint32_t> pieces;
  for (std::uint32_t piece = stripe; piece < plan_.pieces(); piece += plan_.stripes()) {
    if (takes(piece)) pieces.push_back(piece);
  }
  return pieces;
}

std::uint64_t PartialState::offset_of(const StatePiece& place) const {
  return std::uint64_t{place.section} * plan_.parameters() * sizeof(float) + place.offset();
}

// The piece that is held, if its bytes are still what they were.
Status PartialState::read(std::uint32_t piece, std::span<float> target) const {
  const auto bytes = std::as_writable_bytes(target);
  Status done = read_at(data_, data_path(folder_), offset_of(plan_.piece(piece)), bytes);
  if (done.ok() && piece_digest(bytes) != held_[piece].digest) {
    return Error(ErrorCode::kCorrupt, data_path(folder_).string() + " is damaged");
  }
  return done;
}

}  // namespace starling::peer

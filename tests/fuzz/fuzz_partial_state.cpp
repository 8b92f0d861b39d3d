// Feeds PartialState what an earlier process may have left on a disk. The first byte says what is
// made right: its lowest bit the header and the digests of records, the next the digests of pieces;
// without that the fuzzer would never get past them. The next one says how many records follow
// behind the header; the rest is the data. What is believed must be there, and must be the same
// when it is opened again.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/hash.h"
#include "peer/files/checkpoint_image.h"
#include "peer/states/partial_state.h"

namespace {

namespace fs = std::filesystem;
using namespace starling;
using namespace starling::peer;

constexpr std::size_t kHeaderBytes = 48, kRecordBytes = 56;

// A model so small that an input can hold all of its state, and a folder for it.
struct World {
  World() { fs::create_directories(folder); }
  ~World() { fs::remove_all(folder); }
  PartialState open() const {
    auto opened = PartialState::open(folder, plan, {}, gossip::sections_taken(true));
    STARLING_ASSERT(opened.ok());
    return std::move(opened).value();
  }

  const model::LlamaConfig config{
      .vocabulary = 4, .width = 2, .layers = 1, .heads = 1, .kv_heads = 1, .ffn = 2, .context = 4};
  const model::ParamLayout layout = model::ParamLayout::plan(config, 2).value();
  const StripeTable stripes{layout};
  const StatePlan plan{stripes};
  const fs::path folder = memory() / ("fuzz_partial_state." + std::to_string(::getpid()));

 private:
  // A disk would be waited for four times in each run.
  static fs::path memory() {
    const fs::path shared = "/dev/shm";
    return fs::is_directory(shared) ? shared : fs::temp_directory_path();
  }
};

void write(const fs::path& path, std::span<const std::byte> bytes) {
  Status written = replace_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  STARLING_ASSERT(written.ok());
}

// Record by record: kind u32, piece u32, snapshot u64, digest of the piece, digest of the record.
void seal(std::span<std::byte> record, const World& world, std::span<const std::byte> data,
          bool pieces_too) {
  std::uint32_t piece = 0;
  std::memcpy(&piece, record.data() + 4, sizeof piece);
  if (pieces_too && piece < world.plan.pieces()) {
    const StatePiece place = world.plan.piece(piece);
    const std::size_t first =
        place.section * world.plan.parameters() * sizeof(float) + place.offset();
    if (first + place.bytes() <= data.size()) {
      const gossip::StateDigest right = piece_digest(data.subspan(first, place.bytes()));
      std::memcpy(record.data() + 16, right.bytes.data(), right.bytes.size());
    }
  }
  const std::uint64_t whole = digest(record.first(kRecordBytes - 8));
  std::memcpy(record.data() + kRecordBytes - 8, &whole, sizeof whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  if (size < 2) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::span<const std::byte> rest(bytes + 2, size - 2);
  const std::size_t length = std::min(rest.size(), kHeaderBytes + data[1] * kRecordBytes);
  std::vector<std::byte> journal(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
  const auto state = rest.subspan(length);
  if ((data[0] & 1U) != 0 && length >= kHeaderBytes) {
    PartialState::remove(world.folder);
    static_cast<void>(world.open());
    auto header = read_text(world.folder / "state.journal", kHeaderBytes);
    STARLING_ASSERT(header.ok());
    std::memcpy(journal.data(), header.value().data(), kHeaderBytes);
    for (std::size_t at = kHeaderBytes; at + kRecordBytes <= length; at += kRecordBytes) {
      seal(std::span(journal).subspan(at, kRecordBytes), world, state, (data[0] & 2U) != 0);
    }
  }
  write(world.folder / "state.journal", journal);
  write(world.folder / "state.data", state);
  const PartialState first = world.open();
  const std::vector<std::uint64_t> held = first.held();
  if (std::find(held.begin(), held.end(), 0) == held.end()) {
    CheckpointImage image(world.layout.elements(), true);
    STARLING_ASSERT(first.load(image).ok());
  }
  STARLING_ASSERT(world.open().held() == held);
  return 0;
}

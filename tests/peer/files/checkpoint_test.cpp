#include "peer/files/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"
#include "tests/support/memory_source.h"

namespace starling::peer {

using starling::testing::holds_sample;
using starling::testing::SampleCheckpoint;

static_assert(!std::is_copy_constructible_v<SectionList>);

namespace {

Result<std::vector<std::byte>> all_of(CheckpointEncoder& encoder, std::size_t piece) {
  std::vector<std::byte> bytes;
  while (true) {
    auto part = encoder.next(piece);
    if (!part.ok()) return std::move(part).error();
    if (part.value().empty()) return bytes;
    bytes.insert(bytes.end(), part.value().begin(), part.value().end());
  }
}

}  // namespace

TEST_CASE("a checkpoint gives back what was written, whatever the size of the pieces") {
  const SampleCheckpoint sample(5);
  const auto whole = sample.encoded(1 << 20);
  CHECK(whole.size() % 64 == 0);
  for (const std::size_t piece : {1, 7, 64, 4096}) {
    CAPTURE(piece);
    CHECK(sample.encoded(piece) == whole);
  }
  auto file = CheckpointFile::open(memory_source(whole));
  REQUIRE(file.ok());
  const CheckpointHeader& header = file.value().header();
  CHECK(header.step == 5);
  CHECK(header.tokens == 50);
  CHECK(header.peer == 77);
  CHECK(header.incarnation == 3);
  CHECK(header.digests == starling::testing::kDigests);
  CHECK(header.title == sample.header.title);
  CHECK(holds_sample(file.value()));
  CHECK(file.value().section_bytes("empty") == 0);
  CHECK(!file.value().section_bytes("absent").has_value());
}

TEST_CASE("a title that is too long ends with a whole character") {
  SampleCheckpoint sample(5);
  const std::string kept(kCheckpointTitleMax - 1, 'a');
  sample.header.title = kept + "\xc3\xa9";
  auto file = CheckpointFile::open(memory_source(sample.encoded()));
  REQUIRE(file.ok());
  CHECK(file.value().header().title == kept);
  sample.header.title = kept + "\xe9\xe9";  // not UTF-8: any byte may be the last
  file = CheckpointFile::open(memory_source(sample.encoded()));
  REQUIRE(file.ok());
  CHECK(file.value().header().title == kept + "\xe9");
}

TEST_CASE("a checkpoint without sections is a checkpoint") {
  CheckpointEncoder encoder({}, {});
  CHECK(encoder.total_bytes() == kCheckpointHeaderBytes + kCheckpointFooterBytes);
  auto bytes = all_of(encoder, 999);
  REQUIRE(bytes.ok());
  CHECK(bytes.value().size() == encoder.total_bytes());
  CHECK(CheckpointFile::open(memory_source(bytes.value())).ok());
}

TEST_CASE("a section that is read as it is written makes the same file as one in memory") {
  const SampleCheckpoint sample(5);
  std::vector<Section> sections = sample.sections();
  for (Section& section : sections) {
    section.source = memory_source(std::exchange(section.bytes, {}));
  }
  for (const std::size_t piece : {1, 7, 64, 4096, 1 << 20}) {
    CAPTURE(piece);
    CheckpointEncoder encoder(sample.header, sections);
    auto bytes = all_of(encoder, piece);
    REQUIRE(bytes.ok());
    CHECK(bytes.value() == sample.encoded());
  }
}

TEST_CASE("a section whose source fails ends the file with the source's error") {
  const SampleCheckpoint sample(5);
  std::vector<Section> sections = sample.sections();
  const SectionSource whole = memory_source(std::exchange(sections[0].bytes, {}));
  sections[0].source = {whole.size, [&](std::uint64_t at, std::span<std::byte> target) -> Status {
                          if (at >= 128) return Error(ErrorCode::kCorrupt, "the 129th byte");
                          return whole.read(at, target);
                        }};
  CheckpointEncoder encoder(sample.header, sections);
  auto bytes = all_of(encoder, 64);
  REQUIRE(!bytes.ok());
  CHECK(bytes.error().message() == "the 129th byte");
}

TEST_CASE("no byte of a checkpoint can change unnoticed") {
  const auto whole = SampleCheckpoint(9).encoded();
  std::vector<std::byte> damaged = whole;
  std::size_t unnoticed = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      damaged[i] ^= static_cast<std::byte>(flip);
      if (CheckpointFile::open(memory_source(damaged)).ok()) ++unnoticed;
      damaged[i] = whole[i];
    }
  }
  CHECK(unnoticed == 0);
  CHECK(CheckpointFile::open(memory_source(damaged)).ok());
}

TEST_CASE("a checkpoint cut at any length, or with bytes behind it, is refused") {
  const auto whole = SampleCheckpoint(9).encoded();
  std::size_t accepted = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (CheckpointFile::open(memory_source(std::span(whole).first(length))).ok()) ++accepted;
  }
  CHECK(accepted == 0);
  auto longer = whole;
  longer.push_back(std::byte{0});
  CHECK(!CheckpointFile::open(memory_source(longer)).ok());
}

TEST_CASE("the halves of two checkpoints do not make one") {
  const auto first = SampleCheckpoint(1).encoded();
  const auto second = SampleCheckpoint(2).encoded();
  REQUIRE(first.size() == second.size());
  for (std::size_t cut = 64; cut < first.size(); cut += 64) {
    auto mixed = first;
    std::copy(second.begin() + static_cast<std::ptrdiff_t>(cut), second.end(),
              mixed.begin() + static_cast<std::ptrdiff_t>(cut));
    CAPTURE(cut);
    CHECK(!CheckpointFile::open(memory_source(mixed)).ok());
  }
}

namespace {

void overwrite(std::span<std::byte> file, std::size_t offset, std::uint64_t value,
               std::size_t width) {
  const auto source = std::as_bytes(std::span(&value, 1)).first(width);
  STARLING_ASSERT(offset + width <= file.size());
  std::copy(source.begin(), source.end(), file.subspan(offset, width).begin());
}

}  // namespace

// A header that lies, but under a correct digest: only the checks on the values are left.
TEST_CASE("lengths and offsets of a sealed header are still checked before they are believed") {
  const auto whole = SampleCheckpoint(9).encoded();
  const std::uint64_t lies[] = {0, 1, 399, 401, 1 << 20, ~std::uint64_t{0}, std::uint64_t{1} << 63};
  const std::size_t fields[] = {12, 16, 256 + 24, 256 + 32, 256 + 40 + 24, 256 + 40 + 32};
  for (const std::size_t field : fields) {
    for (const std::uint64_t lie : lies) {
      auto damaged = whole;
      overwrite(damaged, field, lie, field == 12 ? 4 : 8);
      if (damaged == whole) continue;
      const std::uint64_t sealed = digest(std::span(damaged).first(kCheckpointHeaderBytes - 8));
      overwrite(damaged, kCheckpointHeaderBytes - 8, sealed, 8);
      CAPTURE(field);
      CAPTURE(lie);
      CHECK(!CheckpointFile::open(memory_source(damaged)).ok());
    }
  }
}

TEST_CASE("reading a section into the wrong size is an error that says both sizes") {
  const auto whole = SampleCheckpoint(9).encoded();
  auto file = CheckpointFile::open(memory_source(whole));
  REQUIRE(file.ok());
  std::vector<std::byte> small(8);
  auto read = file.value().read("weights", std::span(small));
  REQUIRE(!read.ok());
  CHECK(read.error().code() == ErrorCode::kIncompatible);
  CHECK(read.error().message().find("400") != std::string::npos);
  CHECK(file.value().read("weights", std::uint64_t{399}).error().code() == ErrorCode::kCorrupt);
  CHECK(file.value().read("absent", std::span(small)).error().code() == ErrorCode::kNotFound);
}

TEST_CASE("a file that changes after it was verified is noticed when it is read") {
  const ScratchFolder folder;
  const auto path = folder / "x.ckpt";
  auto whole = SampleCheckpoint(9).encoded();
  const auto save = [&] {
    starling::testing::write_file(
        path, std::string_view(reinterpret_cast<const char*>(whole.data()), whole.size()));
  };
  save();
  auto file = CheckpointFile::open(path);
  REQUIRE(file.ok());
  CHECK(holds_sample(file.value()));
  whole[kCheckpointHeaderBytes + 5] ^= std::byte{1};
  save();
  CHECK(!holds_sample(file.value()));
}

}  // namespace starling::peer

#include "peer/files/checkpoint_parts.h"

#include <doctest/doctest.h>

#include "peer/files/checkpoint_codec.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/files/sample_image.h"
#include "tests/support/memory_source.h"

namespace starling::peer {

namespace {

CheckpointImage empty_like(const CheckpointImage& image) {
  CheckpointImage empty(0, false);
  empty.weights.resize(image.weights.size());
  empty.first_moment.resize(image.weights.size());
  empty.second_moment.resize(image.weights.size());
  empty.slow.resize(image.slow.size());
  empty.momentum.resize(image.slow.size());
  return empty;
}

std::vector<std::byte> encoded(const SectionList& list) {
  CheckpointEncoder encoder({}, list.sections);
  std::vector<std::byte> bytes;
  while (true) {
    const auto part = encoder.next(1 << 20).value();
    if (part.empty()) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
}

std::vector<std::byte> encoded(const CheckpointImage& image) {
  return encoded(sections_of(image, "[run]\n"));
}

}  // namespace

TEST_CASE("an image comes back from a checkpoint as it was") {
  const CheckpointImage image = sample_image(1);
  const auto bytes = encoded(image);
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CheckpointImage back = empty_like(image);
  REQUIRE(restore(file.value(), back).ok());
  CHECK(back.weights == image.weights);
  CHECK(back.first_moment == image.first_moment);
  CHECK(back.second_moment == image.second_moment);
  CHECK(back.slow == image.slow);
  CHECK(back.momentum == image.momentum);
  CHECK(back.scales == image.scales);
  CHECK(encode(back.age) == encode(image.age));
  CHECK(encode(back.progress) == encode(image.progress));
  CHECK(back.data == image.data);
  CHECK(back.ledger == image.ledger);
  CHECK(back.tokens == image.tokens);
  REQUIRE(back.unsettled.size() == 2);
  CHECK(encode(std::span<const UnsettledDelta>(back.unsettled)) ==
        encode(std::span<const UnsettledDelta>(image.unsettled)));
  CHECK(back.unsettled[1].payload.size() == 9);
  CHECK(back.unsettled[0].terms.mixing == 0.25F);
  auto config = read_config(file.value());
  REQUIRE(config.ok());
  CHECK(config.value() == "[run]\n");
}

TEST_CASE("an image without outer steps has no slow weights in its checkpoint") {
  CheckpointImage image = sample_image(2);
  image.slow.clear();
  image.momentum.clear();
  const auto bytes = encoded(image);
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CHECK(!file.value().section_bytes("slow").has_value());
  CheckpointImage back = empty_like(image);
  CHECK(restore(file.value(), back).ok());
}

TEST_CASE("restoring into a model of another size is refused and names the section") {
  const auto bytes = encoded(sample_image(3));
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CheckpointImage back = empty_like(sample_image(3));
  back.weights.resize(36);
  auto restored = restore(file.value(), back);
  REQUIRE(!restored.ok());
  CHECK(restored.error().code() == ErrorCode::kIncompatible);
  CHECK(restored.error().message().find("'weights'") != std::string::npos);
}

TEST_CASE("a checkpoint of an earlier version does not say how old it is") {
  const CheckpointImage image = sample_image(6);
  SectionList list = sections_of(image, "[run]\n");
  std::erase_if(list.sections, [](const Section& section) { return section.name == "age"; });
  const auto bytes = encoded(list);
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CheckpointImage back = empty_like(image);
  back.age.missed = 7;
  REQUIRE(restore(file.value(), back).ok());
  CHECK(back.age.written == 0);
  CHECK(back.age.missed == 0);
}

}  // namespace starling::peer

#include "peer/models/coverage.h"

#include <doctest/doctest.h>

#include "peer/files/checkpoint_parts.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {
namespace {

DataPosition position(std::uint64_t space, std::vector<std::uint16_t> passes,
                      std::vector<std::uint16_t> own_passes) {
  DataPosition made;
  made.space = space;
  made.passes = std::move(passes);
  made.own_passes = std::move(own_passes);
  return made;
}

void write_checkpoint(const std::filesystem::path& path, const DataPosition& data,
                      std::uint64_t peer = 0) {
  CheckpointImage image(3, false);
  image.data = data;
  const SectionList list = sections_of(image, "");
  CheckpointHeader header;
  header.peer = peer;
  CheckpointEncoder encoder(header, list.sections);
  std::string bytes;
  while (true) {
    const auto part = encoder.next(1 << 20).value();
    if (part.empty()) break;
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  std::filesystem::create_directories(path.parent_path());
  starling::testing::write_file(path, bytes);
}

}  // namespace

TEST_CASE("peers with the same data are counted together") {
  const std::vector<ReadPosition> readers = {
      {"a", position(1, {1, 1, 0, 0}, {1, 0, 0, 0})},  // has heard of one that a third peer read
      {"b", position(1, {1, 0, 1, 0}, {1, 0, 1, 0})},  // reads the first again, unknown to a
      {"c", position(2, {3, 0}, {3, 0})}};
  const auto all = coverage_of(readers);
  REQUIRE(all.size() == 2);
  CHECK(all[0].parts == 4);
  CHECK(all[0].never == 1);
  CHECK(all[0].once == 2);
  CHECK(all[0].more == 1);
  REQUIRE(all[0].readers.size() == 2);
  CHECK(all[0].readers[1].name == "b");
  CHECK(all[0].readers[1].finished == 2);
  CHECK(all[1].more == 1);
  CHECK(coverage_text(all) ==
        "data 0000000000000001 in 4 parts: read never 25.0%, once 50.0%, more often 25.0%; "
        "0 to 2 times\n"
        "  a                 1 parts, 25.0%\n"
        "  b                 2 parts, 50.0%\n"
        "data 0000000000000002 in 2 parts: read never 50.0%, once 0.0%, more often 50.0%; 0 to "
        "3 times\n"
        "  c                 3 parts, 150.0%\n");
}

TEST_CASE("the folder of a run stands for its peers, each by its newest checkpoint") {
  const ScratchFolder folder;
  const std::string name(16, '0');
  write_checkpoint(folder / "run/a/checkpoints" / (name + "0001.ckpt"), position(1, {0}, {0}));
  write_checkpoint(folder / "run/a/checkpoints" / (name + "0002.ckpt"), position(1, {1}, {1}));
  write_checkpoint(folder / "run/b/checkpoints" / (name + "0001.ckpt"), position(1, {0}, {0}));
  starling::testing::write_file(folder / "run/average.ckpt", "not a peer");
  const std::vector<std::filesystem::path> run{folder / "run"};
  auto whole = coverage(run);
  REQUIRE(whole.ok());
  REQUIRE(whole.value().size() == 1);
  CHECK(whole.value()[0].readers.size() == 2);
  CHECK(whole.value()[0].once == 1);
  const std::vector<std::filesystem::path> one{folder / "run/b/"};
  auto single = coverage(one);
  REQUIRE(single.ok());
  CHECK(single.value()[0].never == 1);
  CHECK(single.value()[0].readers[0].name == "b");
  const std::vector<std::filesystem::path> none{folder / "nowhere"};
  CHECK(coverage(none).error().message().find("nowhere") != std::string::npos);
}

TEST_CASE("a peer whose folder is named twice does not count twice") {
  const ScratchFolder folder;
  const std::string name(16, '0');
  write_checkpoint(folder / "run/a/checkpoints" / (name + "0001.ckpt"), position(1, {1}, {1}), 7);
  const std::vector<std::filesystem::path> twice{folder / "run", folder / "run/a"};
  const auto counted = coverage(twice);
  REQUIRE_FALSE(counted.ok());
  CHECK(counted.error().message().find("would count twice") != std::string::npos);
}

}  // namespace starling::peer

#include "peer/files/checkpoint_write.h"

#include <doctest/doctest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "peer/files/checkpoint_store.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/resource_limit.h"

namespace starling::peer {

using starling::testing::holds_sample;
using starling::testing::kDigests;
using starling::testing::SampleCheckpoint;

namespace {

// What must hold after a write that failed: an error of this kind, the old one intact, no rest.
void check_failed_write(const std::filesystem::path& folder, const SampleCheckpoint& next,
                        ErrorCode code) {
  auto store = CheckpointStore::open(folder, 3);
  REQUIRE(store.ok());
  const auto path = store.value().path_of(next.header.sequence);
  auto written = write_checkpoint(path, next.header, next.sections());
  REQUIRE(!written.ok());
  CHECK(written.error().code() == code);
  CHECK(written.error().message().find(path.string()) != std::string::npos);
  CHECK(!std::filesystem::exists(path));
  CHECK(!std::filesystem::exists(path.string() + std::string(kTemporaryExtension)));
  auto loaded = store.value().load_newest(kDigests, "this test");
  REQUIRE(loaded.ok());
  REQUIRE(loaded.value().has_value());
  CHECK(loaded.value()->header().step == 1);
  CHECK(holds_sample(*loaded.value()));
}

// A small file system at a folder, for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& folder)
      : folder_(folder), error_(mount(folder) ? 0 : errno) {}
  ~SmallDisk() {
    if (error_ == 0) CHECK(::umount(folder_.c_str()) == 0);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  int error() const { return error_; }  // of the system; 0: it is there

 private:
  static bool mount(const std::filesystem::path& folder) {
    return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=256k") == 0;
  }
  const std::filesystem::path folder_;
  const int error_;
};

void write_first(const std::filesystem::path& folder) {
  const SampleCheckpoint sample(1);
  auto store = CheckpointStore::open(folder, 3);
  REQUIRE(store.ok());
  REQUIRE(write_checkpoint(store.value().path_of(1), sample.header, sample.sections()).ok());
}

}  // namespace

TEST_CASE("a checkpoint of several pieces is written and reads back") {
  const ScratchFolder folder;
  const SampleCheckpoint sample(3, 2'500'000);
  const auto path = folder / "x.ckpt";
  REQUIRE(write_checkpoint(path, sample.header, sample.sections()).ok());
  auto file = CheckpointFile::open(path);
  REQUIRE(file.ok());
  CHECK(holds_sample(file.value()));
  CHECK(!std::filesystem::exists(path.string() + std::string(kTemporaryExtension)));
}

TEST_CASE("a folder that does not exist is an error that names the file") {
  const ScratchFolder folder;
  const SampleCheckpoint sample(3);
  auto written = write_checkpoint(folder / "no/x.ckpt", sample.header, sample.sections());
  REQUIRE(!written.ok());
  CHECK(written.error().code() == ErrorCode::kNotFound);
  CHECK(written.error().message().find("no/x.ckpt.tmp") != std::string::npos);
}

TEST_CASE("a limit on the size of files leaves the old checkpoint in place") {
  const ScratchFolder folder;
  write_first(folder.path());
  const starling::testing::ResourceLimit limit(RLIMIT_FSIZE, 64 << 10);
  check_failed_write(folder.path(), SampleCheckpoint(2, 100'000), ErrorCode::kExhausted);
}

TEST_CASE("a full disk leaves the old checkpoint in place") {
  const ScratchFolder folder;
  const SmallDisk disk(folder.path());
  if (disk.error() != 0) {
    MESSAGE("skipped: cannot mount a small file system: " << std::strerror(disk.error()));
    return;
  }
  write_first(folder.path());
  for (const std::size_t values : {70'000, 100'000, 1'000'000}) {
    CAPTURE(values);
    check_failed_write(folder.path(), SampleCheckpoint(2, values), ErrorCode::kExhausted);
  }
}

}  // namespace starling::peer

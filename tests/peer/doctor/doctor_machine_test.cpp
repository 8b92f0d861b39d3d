#include "peer/doctor/doctor_machine.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/peer/scratch_folder.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

bool says(const Finding& finding, std::string_view what) {
  return (finding.text + finding.remedy).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("memory that is not there fails, and what nearly fills it is worth a warning") {
  CHECK(judge_memory(kGiB, 2 * kGiB).verdict == Verdict::kOk);
  CHECK(judge_memory(kGiB, kGiB + kGiB / 10).verdict == Verdict::kWarning);
  const Finding much = judge_memory(3 * kGiB, 2 * kGiB);
  CHECK(much.verdict == Verdict::kFailed);
  CHECK(says(much, "3.00 GiB planned, 2.00 GiB free"));
  CHECK(says(much, "batch.micro"));
  CHECK(judge_memory(kGiB, std::nullopt).verdict == Verdict::kOk);
}

TEST_CASE("the disk takes one checkpoint more than are kept, and what a newcomer fetches") {
  DiskRoom room{.folder = "/runs", .available = 4 * kGiB, .checkpoint = kGiB, .keep = 3};
  CHECK(judge_disk(room).verdict == Verdict::kOk);
  room.fetched = 1;
  const Finding full = judge_disk(room);
  CHECK(full.verdict == Verdict::kFailed);
  CHECK(says(full, "4.00 GiB free at /runs"));
  CHECK(says(full, "checkpoint.keep"));
  room.present = kGiB;  // is there already
  CHECK(judge_disk(room).verdict == Verdict::kOk);
  room.present = 9 * kGiB;  // somebody kept more
  room.available = 1;
  CHECK(judge_disk(room).verdict == Verdict::kOk);
}

TEST_CASE("what a newcomer fetches is counted on the disk of the run folder") {
  const DiskRoom checkpoints{
      .folder = "/kept", .disk = 1, .available = 4 * kGiB, .checkpoint = kGiB, .keep = 3};
  DiskRoom run{.folder = "/runs", .disk = 2, .available = kGiB, .fetched = 2 * kGiB};
  const std::vector<Finding> apart = judge_disks(checkpoints, run);
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].verdict == Verdict::kOk);
  CHECK(apart[1].verdict == Verdict::kFailed);
  CHECK(says(apart[1], "1.00 GiB free at /runs; the others' state want 2.00 GiB more"));
  CHECK(says(apart[1], "run.folder"));
  run.fetched = 0;
  CHECK(judge_disks(checkpoints, run)[1].text == "1.00 GiB free at /runs");
  run.fetched = 2 * kGiB;
  run.disk = 1;
  const std::vector<Finding> together = judge_disks(checkpoints, run);
  REQUIRE(together.size() == 1);
  CHECK(says(together[0], "and the others' state want 6.00 GiB more"));
}

TEST_CASE("checkpoints that will be set aside make no room for new ones") {
  const ScratchFolder folder;
  const auto text = [&folder](const std::string& resume) {
    const std::vector<std::string> overrides = {"run.folder=" + folder.path().string(),
                                                "checkpoint.folder=" + folder.path().string(),
                                                "checkpoint.resume=" + resume};
    auto config = parse_config("", "test", overrides);
    REQUIRE(config.ok());
    auto layout = model::ParamLayout::plan(config.value().model, 1);
    REQUIRE(layout.ok());
    for (const Finding& finding : check_machine(config.value(), layout.value())) {
      if (finding.check == "disk") return finding.text;
    }
    return std::string();
  };
  const auto file = folder.path() / "00000000000000000001.ckpt";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, 100 * kGiB);  // a hole
  CHECK(text("auto").find("want 0 B more") != std::string::npos);
  CHECK(text("never").find("want 0 B more") == std::string::npos);
}

TEST_CASE("a clock that nobody keeps is worth a warning, one that cannot be asked is not") {
  CHECK(judge_clock({}).verdict == Verdict::kOk);
  CHECK(judge_clock({.known = true, .synchronised = true}).verdict == Verdict::kOk);
  CHECK(says(judge_clock({.known = true, .synchronised = false}), "timedatectl"));
}

TEST_CASE("the device that is used is told, and a GPU that is not") {
  CHECK(judge_device({.wanted = "auto", .used = "cpu"}).verdict == Verdict::kOk);
  const Finding none = judge_device({.wanted = "cuda", .problem = "this build has no CUDA"});
  CHECK(none.verdict == Verdict::kFailed);
  CHECK(says(none, "device.name"));
  DeviceFacts idle{.wanted = "auto", .used = "cpu", .problem = {}, .why_cpu = "no CUDA module"};
  CHECK(judge_device(idle).verdict == Verdict::kOk);
  CHECK(says(judge_device(idle), "cpu: no CUDA module"));
  idle.nvidia_driver = "NVRM 580";
  CHECK(judge_device(idle).verdict == Verdict::kWarning);
  CHECK(says(judge_device(idle), "NVRM 580"));
  CHECK(says(judge_device(idle), "no CUDA module"));
  idle.wanted = "cpu";
  CHECK(judge_device(idle).verdict == Verdict::kOk);
  const Finding gpu = judge_device({.wanted = "auto",
                                    .used = "cuda:0, NVIDIA H200, sm_90, 139.7 GiB, bf16",
                                    .on_cpu = false,
                                    .nvidia_driver = "NVRM 580"});
  CHECK(gpu.verdict == Verdict::kOk);
  CHECK(says(gpu, "NVIDIA H200"));
  CHECK(says(gpu, "NVRM 580"));
}

TEST_CASE("the memory of a GPU is compared with what the plan puts there") {
  CHECK(judge_gpu_memory(5UL << 30, 6UL << 30).verdict == Verdict::kOk);
  CHECK(judge_gpu_memory(7UL << 30, 6UL << 30).verdict == Verdict::kFailed);
  CHECK(says(judge_gpu_memory(7UL << 30, 6UL << 30), "batch.micro"));
  CHECK(judge_gpu_heads(64, model::Compute::kBf16).verdict == Verdict::kOk);
  CHECK(judge_gpu_heads(80, model::Compute::kBf16).verdict == Verdict::kWarning);
  CHECK(says(judge_gpu_heads(80, model::Compute::kBf16), "model.heads"));
  CHECK(says(judge_gpu_heads(64, model::Compute::kFp32), "device.compute"));
}

TEST_CASE("threads and descriptors are compared with what is allowed") {
  const ProcessorFacts four{.allowed = {0, 1, 2, 3}, .siblings = {}, .taken = {}};
  CHECK(judge_threads({.threads = 0}, {}).verdict == Verdict::kOk);
  CHECK(judge_threads({.threads = 4}, four).verdict == Verdict::kOk);
  CHECK(judge_threads({.threads = 5}, four).verdict == Verdict::kFailed);
  CHECK(judge_threads({.threads = 5, .pin = false}, four).verdict == Verdict::kWarning);
  ProcessorFacts quota = four;
  quota.quota = 1.5;
  CHECK(judge_threads({.threads = 0}, quota).verdict == Verdict::kOk);
  CHECK(judge_threads({.threads = 2}, quota).verdict == Verdict::kOk);
  CHECK(judge_threads({.threads = 3}, quota).verdict == Verdict::kWarning);
  CHECK(says(judge_threads({.threads = 3}, quota), "the time of 1.5 (cpu.max)"));
  CHECK(judge_descriptors(1 << 20, {}).verdict == Verdict::kOk);
  CHECK(says(judge_descriptors(1024, {}), "ulimit -Hn"));
}

}  // namespace starling::peer

#include "peer/doctor/doctor_machine.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cuda/backend.h"
#include "peer/files/checkpoint_store.h"
#include "peer/io/human_text.h"
#include "peer/machine/backend.h"
#include "peer/machine/descriptors.h"
#include "peer/roles/memory_plan.h"
#include "peer/roles/role_settings.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr double kTight = 0.8;  // of what there is: more is worth a warning
// Of a checkpoint, besides what is in memory: scales, ledger, configuration, gaps.
constexpr std::uint64_t kCheckpointRest = 1 << 20;
constexpr double kMicroseconds = 1e-6;

// The nearest folder above that is there.
fs::path existing(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored);
  while (!fs::is_directory(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::uint64_t bytes_of_checkpoints(const fs::path& folder) {
  std::uint64_t sum = 0;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code gone;
    const std::uint64_t bytes = entry->file_size(gone);
    if (!gone && entry->path().extension() == ".ckpt") sum += bytes;
  }
  return sum;
}

std::vector<Finding> check_disks(const PeerConfig& config, const model::ParamLayout& layout) {
  const bool exchanges = config.outer.rule.method != optim::OuterMethod::kLocal;
  const std::uint64_t floats = layout.elements() * sizeof(float);
  DiskRoom checkpoints{.folder = checkpoint_folder(config),
                       .checkpoint = (exchanges ? 5 : 3) * floats + kCheckpointRest,
                       .keep = config.checkpoint.keep};
  // Those that are set aside at the start stay.
  const bool replaced = config.checkpoint.resume != Resume::kNever;
  checkpoints.present = replaced ? bytes_of_checkpoints(checkpoints.folder) : 0;
  DiskRoom run{.folder = run_folder_names(config).path()};
  const bool joins =
      exchanges && config.join.state != JoinState::kNone && !config.gossip.seeds.empty();
  const bool moments = config.join.state == JoinState::kWeightsAndMoments;
  run.fetched = joins ? gossip::sections_count(moments) * floats : 0;

  std::set<fs::path> told;
  std::vector<Finding> failures;
  for (DiskRoom* room : {&checkpoints, &run}) {
    const fs::path place = existing(room->folder);
    std::error_code failure;
    room->available = fs::space(place, failure).available;
    struct stat status {};
    const bool usable =
        !failure && ::stat(place.c_str(), &status) == 0 && ::access(place.c_str(), W_OK) == 0;
    room->disk = status.st_dev;
    if (usable || !told.insert(place).second) continue;
    failures.push_back(
        failed("disk", fmt::format("{} cannot be written to", place.string()),
               "make it writable, or set run.folder or checkpoint.folder to one that is"));
  }
  return failures.empty() ? judge_disks(checkpoints, run) : failures;
}

// The device that a peer of this configuration would have, and what it would hold.
struct ExaminedDevice {
  DeviceFacts facts;
  Backend backend;                                 // where there is one
  DeviceNeeds needs;                               // that of a CPU's fp32 where there is none
  std::optional<std::uint64_t> gpu_memory_free{};  // empty: it computes on the CPU
};

ExaminedDevice examine_device(const DeviceConfig& config, const GpuJudge& judge) {
  ExaminedDevice device;
  device.facts.wanted = config.name;
  const std::string driver = system_text("/proc/driver/nvidia/version");
  device.facts.nvidia_driver = driver.substr(0, driver.find('\n'));
  const int threads =
      config.threads == 0 ? default_threads(processor_facts()) : static_cast<int>(config.threads);
  device.needs = needs_of_cpu(model::Compute::kFp32, threads);
  auto backend = make_backend(config.name, {.threads = 1}, config.compute, judge);
  if (!backend.ok()) {
    device.facts.problem = backend.error().message();
    return device;
  }
  device.backend = std::move(backend).value();
  device.facts.on_cpu = !device.backend.is_far();
  device.facts.why_cpu = device.backend.why_cpu;
  device.facts.used = device.facts.on_cpu ? "cpu" : device.backend.title;
  if (device.facts.on_cpu) {
    device.needs = needs_of_cpu(device.backend.compute, threads);
    return device;
  }
  device.needs = needs_of(device.backend);
  device.gpu_memory_free = gpu_memory_to_plan(device.backend);
  return device;
}

}  // namespace

Finding judge_memory(std::uint64_t planned, std::optional<std::uint64_t> available) {
  constexpr const char* kRemedy =
      "lower batch.micro, batch.tokens, device.threads or gossip.slots, set batch.recompute = "
      "\"blocks\", take a smaller [model], or end what else runs here";
  if (!available) return good("memory", human_bytes(planned) + " planned; free: unknown");
  const std::string text =
      fmt::format("{} planned, {} free", human_bytes(planned), human_bytes(*available));
  if (planned > *available) return failed("memory", text, kRemedy);
  const bool tight = static_cast<double>(planned) > kTight * static_cast<double>(*available);
  return tight ? doubtful("memory", text, kRemedy) : good("memory", text);
}

Finding judge_gpu_memory(std::uint64_t planned, std::uint64_t available) {
  const std::string text =
      fmt::format("{} planned, {} free", human_bytes(planned), human_bytes(available));
  if (planned <= available) return good("gpu memory", text);
  return failed(
      "gpu memory", text,
      "lower batch.micro or batch.tokens, set batch.recompute = \"blocks\", take a smaller "
      "[model], or end what else uses this GPU");
}

Finding judge_gpu_heads(std::int64_t head_width, model::Compute compute) {
  const std::string text = fmt::format("attention heads of {} columns", head_width);
  if (compute == model::Compute::kFp32) {
    return doubtful("gpu heads", text + " in fp32, which is for checking: without tensor cores",
                    "device.compute = \"auto\" or \"bf16\"");
  }
  const bool has_tiles =
      head_width == 32 || head_width == 64 || head_width == 96 || head_width == 128;
  if (has_tiles) return good("gpu heads", text);
  return doubtful("gpu heads", text + ", which are computed without tensor cores, and slowly",
                  "model.width / model.heads = 64 or 128 (or 32, 96)");
}

Finding judge_disk(const DiskRoom& room) {
  // One more than are kept: the oldest goes when the newest is written.
  const std::uint64_t count = room.keep + std::uint64_t{1};
  const std::uint64_t all = count * room.checkpoint;
  const std::uint64_t wanted = all - std::min(all, room.present) + room.fetched;
  std::string what;
  if (all > 0)
    what = fmt::format("{} checkpoints of about {}", count, human_bytes(room.checkpoint));
  if (room.fetched > 0) what += what.empty() ? "the others' state" : " and the others' state";
  std::string text =
      fmt::format("{} free at {}", human_bytes(room.available), room.folder.string());
  if (!what.empty()) text += fmt::format("; {} want {} more", what, human_bytes(wanted));
  if (wanted <= room.available) return good("disk", text);
  return failed("disk", text,
                all > 0 ? "make room there, lower checkpoint.keep, or set checkpoint.folder to "
                          "another disk"
                        : "make room there, or set run.folder to another disk");
}

std::vector<Finding> judge_disks(DiskRoom checkpoints, const DiskRoom& run) {
  if (checkpoints.disk != run.disk) return {judge_disk(checkpoints), judge_disk(run)};
  checkpoints.fetched += run.fetched;
  return {judge_disk(checkpoints)};
}

ClockState clock_state() {
  timex state{};
  const int outcome = ::ntp_adjtime(&state);
  if (outcome < 0) return {};
  return {.known = true,
          .synchronised = outcome != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
          .error_seconds = static_cast<double>(state.maxerror) * kMicroseconds};
}

Finding judge_clock(const ClockState& state) {
  if (!state.known) return good("clock", "this system does not tell whether it is kept");
  if (state.synchronised) {
    return good("clock", fmt::format("kept, right within {:.3f} s", state.error_seconds));
  }
  return doubtful("clock",
                  "nobody keeps it, as far as this system tells; quiet hours, daily limits and the "
                  "times in logs follow it",
                  "timedatectl set-ntp true, or start chronyd or ntpd");
}

Finding judge_device(const DeviceFacts& facts) {
  if (facts.used.empty()) {
    return failed("device", facts.problem,
                  "device.name and device.compute = \"auto\" take the best there is");
  }
  const std::string driver =
      facts.nvidia_driver.empty() ? std::string() : " (" + facts.nvidia_driver + ")";
  if (!facts.on_cpu) return good("device", facts.used + driver);
  if (facts.wanted == "cpu") return good("device", facts.used);
  const std::string why = facts.why_cpu.empty() ? std::string() : ": " + facts.why_cpu;
  if (facts.nvidia_driver.empty()) return good("device", facts.used + why);
  return doubtful("device", "the CPU, though this machine has a GPU's driver" + driver + why,
                  "device.name = \"cpu\" if this is meant");
}

Finding judge_threads(const DeviceConfig& config, const ProcessorFacts& facts) {
  const int allowed = std::max(static_cast<int>(facts.allowed.size()), 1);
  const int usable = usable_processors(facts);
  const int wanted =
      config.threads == 0 ? default_threads(facts) : static_cast<int>(config.threads);
  const std::string text = fmt::format(
      "device.threads = {}{}, {} processor{} allowed{}", config.threads,
      config.threads == 0 ? fmt::format(" (that is {})", wanted) : std::string(), allowed,
      allowed == 1 ? "" : "s",
      usable < allowed ? fmt::format(", the time of {:.3g} (cpu.max)", *facts.quota) : "");
  if (wanted <= usable) return good("threads", text);
  if (wanted <= allowed) {
    return doubtful("threads", text,
                    fmt::format("device.threads = {} at most: more are held up for a part of "
                                "every step; or a larger quota (docker --cpus)",
                                usable));
  }
  const char* const remedy =
      "lower device.threads, or allow more processors (taskset, docker --cpuset-cpus)";
  return config.pin && !facts.allowed.empty() ? failed("threads", text, remedy)
                                              : doubtful("threads", text, remedy);
}

Finding judge_descriptors(std::uint64_t limit, const GossipSettings& settings) {
  const DescriptorPlan plan = plan_descriptors(limit, settings);
  const std::string text =
      fmt::format("{} files and connections allowed, a swarm of gossip.peers_max = {} wants {}",
                  limit, settings.peers_max, plan.wanted);
  if (limit >= plan.wanted) return good("descriptors", text);
  return doubtful("descriptors", text,
                  "raise the hard limit (ulimit -Hn, LimitNOFILE in a unit of systemd, --ulimit "
                  "nofile in Docker), or lower gossip.peers_max");
}

std::vector<Finding> check_machine(const PeerConfig& config, const model::ParamLayout& layout) {
  const StripeTable stripes(layout);
  // Where the device is wrong, its own finding says so.
  const ExaminedDevice device = examine_device(config.device, gpu_judge(config, layout, stripes));
  const auto available = memory_available();
  const auto room = device.gpu_memory_free ? device.gpu_memory_free : available;
  PeerConfig started = config;
  if (!config.micro_batch && room) {
    started.micro_batch = micro_batch_within(*room, config, layout, stripes, device.needs);
  }
  const MemoryPlan plan = plan_memory(started, layout, stripes, device.needs);
  Finding memory = judge_memory(device.needs.far ? plan.host_total() : plan.total(), available);
  if (available) {
    memory =
        with_figure(std::move(memory), "memory_available_bytes", static_cast<double>(*available));
  }
  std::vector<Finding> findings{std::move(memory),
                                judge_descriptors(raise_descriptor_limit(), config.gossip),
                                judge_device(device.facts), judge_clock(clock_state())};
  const std::vector<Finding> disks = check_disks(config, layout);
  findings.insert(findings.begin() + 1, disks.begin(), disks.end());
  // A GPU's peer computes by no threads.
  if (!device.needs.far) findings.push_back(judge_threads(config.device, processor_facts()));
  if (device.gpu_memory_free) {
    findings.push_back(with_figure(judge_gpu_memory(plan.device_total(), *device.gpu_memory_free),
                                   "gpu_memory_available_bytes",
                                   static_cast<double>(*device.gpu_memory_free)));
    findings.push_back(judge_gpu_heads(config.model.head_width(), device.backend.compute));
  }
  return findings;
}

}  // namespace starling::peer

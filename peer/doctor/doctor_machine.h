// What `starling doctor` asks of the machine: memory, disk, descriptors, processors, the device and
// the clock. Measured here, judged by functions that look at nothing but their arguments. Changes
// nothing. Start-up and tools; blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/cpu/cpu_layer_ops.h"
#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/doctor/doctor_report.h"
#include "peer/machine/free_memory.h"
#include "peer/machine/processors.h"

namespace starling::peer {

Finding judge_memory(std::uint64_t planned, std::optional<std::uint64_t> available);
// Of a GPU.
Finding judge_gpu_memory(std::uint64_t planned, std::uint64_t available);
Finding judge_gpu_heads(std::int64_t head_width, model::Compute compute);

// Where the checkpoints go, or what a newcomer fetches first.
struct DiskRoom {
  std::filesystem::path folder;
  std::uint64_t disk = 0;        // the system's number of it
  std::uint64_t available = 0;   // on its disk
  std::uint64_t present = 0;     // of checkpoints that are there and will go
  std::uint64_t checkpoint = 0;  // of one of them
  std::uint32_t keep = 0;
  std::uint64_t fetched = 0;  // of the others' state, at the start
};
Finding judge_disk(const DiskRoom& room);
// Of the folder of checkpoints and that of the run, which may be on one disk.
std::vector<Finding> judge_disks(DiskRoom checkpoints, const DiskRoom& run);

struct ClockState {
  bool known = false;
  bool synchronised = false;
  double error_seconds = 0;  // at most, as the system reckons
};
ClockState clock_state();
Finding judge_clock(const ClockState& state);

struct DeviceFacts {
  std::string wanted{};         // device.name
  std::string used{};           // with its title; empty: none
  std::string problem{};        // why there is none
  bool on_cpu = true;           // what is used
  std::string why_cpu{};        // where "auto" took it
  std::string nvidia_driver{};  // as it says of itself; empty: there is none
};
Finding judge_device(const DeviceFacts& facts);

Finding judge_threads(const DeviceConfig& config, const ProcessorFacts& facts);
Finding judge_descriptors(std::uint64_t limit, const GossipSettings& settings);

// All of them, for a peer of this configuration.
std::vector<Finding> check_machine(const PeerConfig& config, const model::ParamLayout& layout);

}  // namespace starling::peer

#include "peer/commands/memory_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/io/human_text.h"
#include "peer/io/text_table.h"
#include "peer/machine/backend.h"
#include "peer/machine/free_memory.h"
#include "peer/machine/processors.h"
#include "peer/roles/memory_plan.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

namespace {

// A batch can be cut in more ways than a terminal has room for.
constexpr std::size_t kColumnsMax = 6;

struct PlannedDevice {
  bool gpu = false;
  model::Compute compute{};
  DeviceNeeds needs;
};

Result<PlannedDevice> planned_device(const DeviceConfig& config) {
  PlannedDevice device;
  device.gpu = config.name == "auto" ? !useful_gpus().empty() : config.name != "cpu";
  if (device.gpu) {
    if (config.name != "auto") {
      if (auto ordinal = ordinal_of(config.name); !ordinal.ok()) return std::move(ordinal).error();
    }
    device.compute = gpu_compute_of(config.compute);
    device.needs = needs_of_gpu(device.compute);
    return device;
  }
  auto compute = compute_of(config.compute);
  if (!compute.ok()) return std::move(compute).error();
  device.compute = compute.value();
  const int threads =
      config.threads == 0 ? default_threads(processor_facts()) : static_cast<int>(config.threads);
  device.needs = needs_of_cpu(device.compute, threads);
  return device;
}

struct PlannedBatch {
  std::int64_t micro_batch = 0;
  MemoryPlan memory;
};

std::vector<PlannedBatch> planned_batches(const PeerConfig& config,
                                          const model::ParamLayout& layout,
                                          const DeviceNeeds& needs) {
  std::vector<std::int64_t> ways =
      config.micro_batch ? std::vector{*config.micro_batch} : micro_batches(config.batch.sequences);
  if (ways.size() > kColumnsMax) ways.erase(ways.begin() + kColumnsMax - 1, ways.end() - 1);
  std::vector<PlannedBatch> batches;
  for (const std::int64_t micro : ways) {
    PeerConfig planned = config;
    planned.micro_batch = micro;
    batches.push_back({micro, plan_memory(planned, layout, StripeTable(layout), needs)});
  }
  return batches;
}

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

std::string memory_text(const PeerConfig& config, const PlannedDevice& device,
                        std::size_t parameters, const std::vector<PlannedBatch>& batches) {
  std::string text = fmt::format(
      "{} parameters, {} sequences of {} tokens, on a {} in {}; MiB\n\n",
      human_count(static_cast<double>(parameters)), config.batch.sequences, config.batch.tokens,
      device.gpu ? "GPU" : "CPU", device.compute == model::Compute::kBf16 ? "bf16" : "fp32");
  std::vector<std::vector<std::string>> rows{{"sequences at a time (batch.micro)"}};
  for (const PlannedBatch& batch : batches) {
    rows.front().push_back(fmt::format("{}", batch.micro_batch));
  }
  const auto add = [&](std::string name, const auto& bytes_of) {
    rows.push_back({std::move(name)});
    for (const PlannedBatch& batch : batches) rows.back().push_back(mebibytes(bytes_of(batch)));
  };
  const std::vector<MemoryPlan::Part>& parts = batches.front().memory.parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* const where = !device.gpu ? "" : parts[i].on_device ? ", GPU" : ", host";
    add(parts[i].name + where, [i](const PlannedBatch& b) { return b.memory.parts[i].bytes; });
  }
  if (device.gpu) {
    add("of the GPU's in all", [](const PlannedBatch& b) { return b.memory.device_total(); });
    add("of the host's in all", [](const PlannedBatch& b) { return b.memory.host_total(); });
  } else {
    add("in all", [](const PlannedBatch& b) { return b.memory.total(); });
  }
  return text + text_table(rows);
}

// How a start would go on this machine, whose memory is the host's. Of a GPU only the doctor knows,
// which opens it.
struct Here {
  std::optional<std::uint64_t> available{};
  Result<std::vector<std::int64_t>> tries;
};

Here judged_here(const PeerConfig& config, const model::ParamLayout& layout,
                 const DeviceNeeds& needs) {
  const auto available = memory_available();
  return {available, micro_batches_to_try(available, config, layout, StripeTable(layout), needs)};
}

std::string here_text(const PeerConfig& config, Here& here) {
  if (!here.tries.ok()) return "\nNot on this machine now: " + here.tries.error().message() + "\n";
  if (!here.available) return "\nHow much memory is free on this machine is not known.\n";
  return fmt::format("\nThis machine has {} free: a start takes {} of {} sequences at a time.\n",
                     human_bytes(*here.available), here.tries.value().front(),
                     config.batch.sequences);
}

nlohmann::json memory_json(const PlannedDevice& device, std::size_t parameters,
                           const std::vector<PlannedBatch>& batches) {
  nlohmann::json plans = nlohmann::json::array();
  for (const PlannedBatch& batch : batches) {
    nlohmann::json parts = nlohmann::json::array();
    for (const MemoryPlan::Part& part : batch.memory.parts) {
      parts.push_back(
          {{"name", part.name}, {"bytes", part.bytes}, {"on_gpu", device.gpu && part.on_device}});
    }
    const std::size_t on_gpu = device.gpu ? batch.memory.device_total() : 0;
    plans.push_back({{"micro_batch", batch.micro_batch},
                     {"parts", std::move(parts)},
                     {"gpu_bytes", on_gpu},
                     {"host_bytes", batch.memory.total() - on_gpu}});
  }
  return {{"plan", "memory"},
          {"device", device.gpu ? "gpu" : "cpu"},
          {"compute", device.compute == model::Compute::kBf16 ? "bf16" : "fp32"},
          {"parameters", parameters},
          {"batches", std::move(plans)}};
}

}  // namespace

Status tell_memory(const std::filesystem::path& config, std::span<const std::string> overrides,
                   bool json, std::ostream& out) {
  auto read = load_config(config, {overrides.begin(), overrides.end()});
  if (!read.ok()) return std::move(read).error();
  const PeerConfig& peer = read.value();
  auto layout = model::ParamLayout::plan(peer.model, peer.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  auto device = planned_device(peer.device);
  if (!device.ok()) return std::move(device).error();
  const auto batches = planned_batches(peer, layout.value(), device.value().needs);
  const std::size_t parameters = layout.value().elements();
  std::optional<Here> here;
  if (!device.value().gpu) here = judged_here(peer, layout.value(), device.value().needs);
  if (json) {
    nlohmann::json line = memory_json(device.value(), parameters, batches);
    if (here && here->available) line["free_bytes"] = *here->available;
    if (here && here->tries.ok()) line["micro_batch"] = here->tries.value().front();
    out << line.dump() << '\n';
    return ok_status();
  }
  out << memory_text(peer, device.value(), parameters, batches)
      << (here ? here_text(peer, *here)
               : fmt::format("\nWhether it fits this machine: starling doctor {}\n",
                             config.string()));
  return ok_status();
}

}  // namespace starling::peer

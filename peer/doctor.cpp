#include "peer/doctor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "model/param_layout.h"
#include "peer/clock.h"
#include "peer/config.h"
#include "peer/doctor_files.h"
#include "peer/doctor_machine.h"
#include "peer/doctor_network.h"
#include "peer/doctor_report.h"
#include "peer/role_settings.h"
#include "peer/run_start.h"

namespace starling::peer {

namespace {

// What is found out on the way, and shown as it is.
class Examination {
 public:
  Examination(const DoctorOptions& options, std::ostream& out) : options_(options), out_(out) {}

  void run();
  Status outcome() const;

 private:
  bool configure();
  void look_at_files();
  void look_at_network();
  void show(FindingGroup group);

  const DoctorOptions& options_;
  std::ostream& out_;
  std::vector<FindingGroup> groups_;
  PeerConfig config_;
  std::optional<model::ParamLayout> layout_;
  std::optional<CheckpointDigests> digests_;
  std::optional<gossip::Identity> identity_;
};

void Examination::run() {
  if (!configure()) return;
  look_at_files();
  show({"this machine", check_machine(config_, *layout_)});
  look_at_network();
}

// Without a configuration there is nothing else to look at.
bool Examination::configure() {
  FindingGroup group{"configuration"};
  auto config = load_config(options_.config, options_.overrides);
  if (!config.ok()) {
    group.findings.push_back(failed("settings", config.error().message(),
                                    "mend the settings that it names; "
                                    "'starling config' describes them all"));
    show(std::move(group));
    return false;
  }
  config_ = std::move(config).value();
  auto layout = model::ParamLayout::plan(config_.model, config_.outer.rounds.fragments);
  if (!layout.ok()) {
    group.findings.push_back(failed("settings", layout.error().message(), "[model]"));
    show(std::move(group));
    return false;
  }
  layout_.emplace(std::move(layout).value());
  group.findings.push_back(good("settings", options_.config.string() + ": " + run_title(config_)));
  auto start = open_start(config_.run.start, *layout_);
  if (start.ok()) {
    digests_ = run_digests(config_.run.name, start.value(), *layout_);
    const std::string from = config_.run.start.empty() ? "run.seed" : config_.run.start;
    group.findings.push_back(
        good("start", fmt::format("weights from {}; run {:016x}, model "
                                  "{:016x}, layout {:016x}",
                                  from, digests_->run, digests_->model, digests_->layout)));
  } else {
    group.findings.push_back(failed("start", start.error().message(),
                                    "run.start: the checkpoint that all peers of the run have, or "
                                    "\"\""));
  }
  show(std::move(group));
  return true;
}

void Examination::look_at_files() {
  const auto time = static_cast<std::uint64_t>(wall_now().unix_seconds);
  FindingGroup identity{"identity"};
  identity.findings.push_back(check_key(config_, identity_));
  const gossip::PublicKey* own = identity_ ? &identity_->key() : nullptr;
  for (Finding& finding : check_trust(config_, own))
    identity.findings.push_back(std::move(finding));
  identity.findings.push_back(check_folder(config_, time));
  show(std::move(identity));
  FindingGroup data{"data"};
  data.findings = check_data(config_, options_.quick ? ShardCheck::kHeader : ShardCheck::kWhole);
  if (digests_ && !options_.quick) data.findings.push_back(check_checkpoint(config_, *digests_));
  show(std::move(data));
}

void Examination::look_at_network() {
  if (config_.outer.rule.method == optim::OuterMethod::kLocal) {
    show({"network", {good("peers", "outer.method = \"local\": this peer trains alone")}});
    return;
  }
  auto settings = network_config(config_);
  STARLING_ASSERT(settings.ok());  // load_config has seen the seeds
  show({"network", check_addresses(config_, settings.value().seeds)});
}

void Examination::show(FindingGroup group) {
  if (!options_.json) out_ << group_text(group) << std::flush;
  groups_.push_back(std::move(group));
}

Status Examination::outcome() const {
  if (options_.json) {
    out_ << report_json(groups_).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
         << '\n';
  } else {
    out_ << summary_text(groups_);
  }
  const std::size_t broken = count(groups_, Verdict::kFailed);
  if (broken == 0) return ok_status();
  return Error(ErrorCode::kUnavailable, fmt::format("{} of the doctor's checks failed", broken));
}

}  // namespace

Status run_doctor(const DoctorOptions& options, std::ostream& out) {
  Examination examination(options, out);
  examination.run();
  return examination.outcome();
}

}  // namespace starling::peer

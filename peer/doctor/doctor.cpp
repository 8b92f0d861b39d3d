#include "peer/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/config/traffic_plan.h"
#include "peer/doctor/doctor_files.h"
#include "peer/doctor/doctor_machine.h"
#include "peer/doctor/doctor_network.h"
#include "peer/doctor/doctor_report.h"
#include "peer/doctor/doctor_seeds.h"
#include "peer/files/run_folder.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/clock.h"
#include "peer/roles/role_settings.h"
#include "peer/roles/run_start.h"

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
  void look_at_seeds(std::span<const gossip::PeerAddress> seeds, bool can_listen);
  void show(FindingGroup group);

  const DoctorOptions& options_;
  std::ostream& out_;
  std::vector<FindingGroup> groups_;
  PeerConfig config_;
  std::optional<model::ParamLayout> layout_;
  std::optional<CheckpointDigests> digests_;
  std::string tokenizer_;  // of data.train; empty: not known
  std::optional<gossip::Identity> identity_;
  bool key_is_usable_ = true;  // or there is none yet
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
    const bool absent = config.error().code() == ErrorCode::kNotFound;
    group.findings.push_back(
        failed("settings", config.error().message(),
               absent ? "name the peer's configuration; 'starling config' prints one to begin with"
                      : "mend what it names; 'starling config' describes all settings"));
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
  auto start = open_start(config_.run.start, *layout_, config_.data.train);
  if (start.ok()) {
    digests_ = run_digests(config_.run.name, start.value(), *layout_);
    auto tokenizer = tokenizer_name_of_shards(config_.data.train);
    if (tokenizer.ok()) tokenizer_ = std::move(tokenizer).value();
    const gossip::RunIdentity run = run_identity(config_.run, *digests_, tokenizer_);
    const std::string from = config_.run.start.empty() ? "run.seed" : config_.run.start;
    group.findings.push_back(good("start", fmt::format("weights from {}; run {:016x}, model "
                                                       "{:016x}, layout {:016x}",
                                                       from, run.run, run.model, run.layout)));
  } else {
    group.findings.push_back(failed("start", start.error().message(),
                                    "run.start: the checkpoint that all peers of the run have, or "
                                    "\"\""));
  }
  show(std::move(group));
  return true;
}

void Examination::look_at_files() {
  FindingGroup identity{"identity"};
  identity.findings.push_back(check_key(config_, identity_));
  key_is_usable_ = identity.findings.front().verdict != Verdict::kFailed;
  const gossip::PublicKey* own = identity_ ? &identity_->key() : nullptr;
  for (Finding& finding : check_trust(config_, own))
    identity.findings.push_back(std::move(finding));
  identity.findings.push_back(check_folder(config_, incarnation_now()));
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
  const auto& seeds = settings.value().seeds;
  auto last = last_start(run_folder_names(config_).path());
  const std::string process = last.ok() ? last.value().process : "";
  FindingGroup network{"network", check_addresses(config_, seeds, process)};
  const gossip::PublicKey* own = identity_ ? &identity_->key() : nullptr;
  if (auto judged = judge_seeds(seeds, own)) network.findings.push_back(*std::move(judged));
  network.findings.push_back(check_congestion_control());
  if (!options_.quick) network.findings.push_back(check_encryption());
  const bool can_listen = network.findings.front().verdict != Verdict::kFailed;
  show(std::move(network));
  look_at_seeds(seeds, can_listen);
}

void Examination::look_at_seeds(std::span<const gossip::PeerAddress> seeds, bool can_listen) {
  auto last = last_start(run_folder_names(config_).path());
  const std::uint64_t time = incarnation_now();
  const std::uint64_t before = last.ok() ? last.value().incarnation : 0;
  Hindrance hindrance;
  if (!digests_) {
    hindrance.reason = "run.start cannot be read";
  } else if (!key_is_usable_) {
    hindrance.reason = "this peer's key cannot be used";
  } else if (!last.ok()) {
    hindrance.reason = "this peer may be running, and would be taken for restarted";
  } else if (!last.value().process.empty()) {
    hindrance = {fmt::format("this peer runs as process {}, and would be taken for restarted",
                             last.value().process),
                 "nothing: 'starling top' shows how this peer does; for a whole check stop it and "
                 "ask the doctor again"};
  } else if (before > time) {
    hindrance.reason = "the clock is behind this peer's last start";
  } else if (!can_listen) {
    hindrance.reason = "gossip.listen cannot be had";
  }
  // Without a key of its own it is one that nobody has met.
  const gossip::Identity identity = identity_ ? *identity_ : gossip::Identity::draw();
  const StripeTable stripes(*layout_);
  auto quiet = parse_quiet_hours(config_.bandwidth.quiet_hours);
  STARLING_ASSERT(quiet.ok());  // load_config has seen it
  const bool is_quiet = quiet.value() && quiet.value()->contains(wall_now().minute_of_day);
  const VisitPlan plan{.config = config_,
                       .identity = identity,
                       .digests = digests_.value_or(CheckpointDigests{}),
                       .tokenizer = tokenizer_,
                       .stripes = stripes,
                       .seeds = seeds,
                       .fetches = !is_quiet && config_.bandwidth.gigabytes_per_day == 0,
                       .process = visit_incarnation(before, time, is_clock_set())};
  for (FindingGroup& group : check_seeds(plan, hindrance)) show(std::move(group));
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

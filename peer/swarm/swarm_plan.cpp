#include "peer/swarm/swarm_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "gossip/wire/wire.h"
#include "optim/fragment_codec.h"
#include "peer/config/config_ranges.h"
#include "peer/config/traffic_plan.h"
#include "peer/roles/memory_plan.h"
#include "peer/simulate/virtual_network.h"
#include "peer/swarm/open_hours.h"
#include "peer/swarm/shares.h"
#include "peer/swarm/swarm_plan_parts.h"

namespace starling::peer {

namespace {

constexpr double kDaySeconds = 86'400;
constexpr double kLongerMax = 4;      // as dynamic_local_steps()
constexpr double kExchangesMax = 16;  // as [gossip] allows at a time
constexpr int kRoundTrips = 2;        // of an exchange: offer and accept, commit and its answer

Error invalid(std::string message) { return Error(ErrorCode::kInvalidConfig, std::move(message)); }

class Planner {
 public:
  Planner(const PeerConfig& config, std::span<const PlanMachine> machines) : config_(config) {
    for (const PlanMachine& machine : machines) {
      MachinePlan kind;
      kind.machine = with_limits_of(config.bandwidth, machine);
      plan_.machines += machine.count;
      kinds_network_.add(planned_line(kind.machine));
      auto quiet = parse_quiet_hours(kind.machine.quiet_hours);
      STARLING_ASSERT(quiet.ok());  // load_plan_file() has seen it
      open_.add(machine.count, quiet.value());
      plan_.kinds.push_back(std::move(kind));
    }
  }

  Result<SwarmPlan> plan() {
    if (Status sped = plan_speeds(); !sped.ok()) return std::move(sped).error();
    if (Status cut = choose_fragments(); !cut.ok()) return std::move(cut).error();
    plan_memory_use();
    lengthen_rounds();
    plan_contraction();
    note_unknown_uploads();
    plan_synchronous(plan_, config_.batch.sequences);
    return std::move(plan_);
  }

 private:
  double step_tokens() const {
    return static_cast<double>(config_.batch.sequences * config_.batch.tokens);
  }
  double speed(const MachinePlan& kind) const { return *kind.machine.tokens_per_second; }

  Status plan_speeds();
  Status choose_fragments();
  Status cut_into(std::uint16_t fragments);
  void set_rounds(std::uint32_t steps_per_round);  // of the fastest
  void choose_codec();
  void reckon_traffic();
  double reckon_exchange(std::size_t at);
  double own_line_seconds(const MachinePlan& kind) const;
  void plan_memory_use();
  void lengthen_rounds();
  std::optional<std::uint32_t> steps_that_do(std::size_t at);
  void lengthen_rounds_of(std::size_t at);
  void overlap_exchanges_of(MachinePlan& kind, double delays);
  void plan_contraction();
  void note_unknown_uploads();

  const PeerConfig& config_;
  SwarmPlan plan_;
  VirtualNetwork kinds_network_{0};  // one end for each kind
  OpenHours open_;
  double fastest_ = 0;          // tokens a second
  ModelBytes bytes_;            // in the format of the plan
  std::vector<double> delays_;  // of an exchange, by kind
  std::optional<model::ParamLayout> layout_;
  std::optional<StripeTable> stripes_;
};

Status Planner::plan_speeds() {
  std::vector<double> speeds;  // of every machine
  for (const MachinePlan& kind : plan_.kinds) {
    fastest_ = std::max(fastest_, speed(kind));
    speeds.insert(speeds.end(), kind.machine.count, speed(kind));
  }
  const std::vector<double> shares = proportional_shares(speeds);
  // One number says what a peer trains, or what all do.
  const RunConfig& run = config_.run;
  const bool alone = run.total_tokens == run.tokens;
  const double total = alone ? static_cast<double>(run.tokens) * plan_.machines
                             : static_cast<double>(run.total_tokens);
  plan_.seconds = total / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const auto steps = static_cast<std::uint64_t>(std::ceil(total / step_tokens()));
  const auto dealt = sharding_round(shares, steps);
  std::size_t at = 0;
  for (MachinePlan& kind : plan_.kinds) {
    kind.share = shares[at];
    const std::uint64_t most = dealt[at];  // of its kind the first has the most
    kind.tokens = std::max<std::uint64_t>(most, 1) * static_cast<std::uint64_t>(step_tokens());
    plan_.total_tokens += kind.tokens * kind.machine.count;
    at += kind.machine.count;
  }
  plan_.steps_per_round = config_.outer.rounds.steps_per_round;
  plan_.round_seconds = plan_.steps_per_round * step_tokens() / fastest_;
  for (MachinePlan& kind : plan_.kinds) kind.step_seconds = step_tokens() / speed(kind);
  if (plan_.total_tokens <= static_cast<std::uint64_t>(kTokensMax)) return ok_status();
  return invalid(fmt::format(
      "the machines would train {:.3g} tokens together, and a configuration takes up to {:.0e}: "
      "lower run.tokens or run.total_tokens",
      total, static_cast<double>(kTokensMax)));
}

// As configured; else the fewest with which exchanges are over within a round; else as configured
// all the same.
Status Planner::choose_fragments() {
  const std::uint16_t wanted = config_.outer.rounds.fragments;
  const auto most = std::min<std::int64_t>(config_.model.layers + 1, plan_.steps_per_round);
  for (auto fragments = static_cast<std::int64_t>(wanted); fragments <= most; ++fragments) {
    if (Status cut = cut_into(static_cast<std::uint16_t>(fragments)); !cut.ok()) return cut;
    const bool in_time =
        std::all_of(plan_.kinds.begin(), plan_.kinds.end(), [this](const MachinePlan& kind) {
          return kind.demand > 1 || own_line_seconds(kind) <= kind.round_seconds;
        });
    if (!in_time) continue;
    if (fragments > wanted) {
      plan_.notes.push_back(fmt::format(
          "outer.fragments {} -> {}: an exchange of a larger part would outlast a round", wanted,
          fragments));
    }
    return ok_status();
  }
  return cut_into(wanted);
}

Status Planner::cut_into(std::uint16_t fragments) {
  auto layout = model::ParamLayout::plan(config_.model, fragments);
  if (!layout.ok()) return std::move(layout).error();
  layout_.emplace(std::move(layout).value());
  stripes_.emplace(*layout_);
  plan_.parameters = layout_->elements();
  plan_.fragments = fragments;
  set_rounds(plan_.steps_per_round);
  choose_codec();
  delays_.clear();
  for (std::size_t i = 0; i < plan_.kinds.size(); ++i) delays_.push_back(reckon_exchange(i));
  return ok_status();
}

void Planner::set_rounds(std::uint32_t steps_per_round) {
  plan_.steps_per_round = steps_per_round;
  const optim::FragmentSchedule rounds{steps_per_round, plan_.fragments};
  for (MachinePlan& kind : plan_.kinds) {
    kind.steps_per_round = optim::dynamic_local_steps(rounds, speed(kind) / fastest_);
    kind.round_seconds = kind.steps_per_round * kind.step_seconds;
  }
}

void Planner::choose_codec() {
  for (const optim::WireFormat format : optim::kWireFormats) {
    if (optim::code_bits(format) > optim::code_bits(config_.outer.wire_format)) continue;
    plan_.wire_format = format;
    reckon_traffic();
    const bool all_fit = std::all_of(plan_.kinds.begin(), plan_.kinds.end(),
                                     [](const MachinePlan& kind) { return kind.demand <= 1; });
    if (all_fit) return;
  }
}

void Planner::reckon_traffic() {
  bytes_ = model_bytes(*stripes_, plan_.wire_format);
  const FragmentBytes& bytes = bytes_.all;
  std::vector<double> rounds;  // a second
  for (const MachinePlan& kind : plan_.kinds) rounds.push_back(1 / kind.round_seconds);
  const std::vector<OpenHours::Met> met = open_.met(rounds);
  for (std::size_t i = 0; i < plan_.kinds.size(); ++i) {
    MachinePlan& kind = plan_.kinds[i];
    const PlanMachine& machine = kind.machine;
    const double own = met[i].begun, others = met[i].accepted;
    kind.exchanges_per_hour = 3600 * plan_.fragments * (own + others);
    kind.upload_mbit = (own * bytes.push + others * bytes.delta) / kBytesPerMbit;
    kind.download_mbit = (own * bytes.delta + others * bytes.push) / kBytesPerMbit;
    kind.gigabytes_per_day = (kind.upload_mbit + kind.download_mbit) * kBytesPerMbit * kDaySeconds *
                             open_.share(i) / 1e9;
    const auto over = [](double need, double limit) { return limit > 0 ? need / limit : 0; };
    kind.demand = std::max({over(kind.upload_mbit, machine.upload_mbit),
                            over(kind.download_mbit, machine.download_mbit),
                            over(kind.gigabytes_per_day, machine.gigabytes_per_day)});
  }
}

// With the mean partner: its delays alone, which are returned, and all of it. PUSH and DELTA one
// after the other: of a fragment of several stripes they overlap.
double Planner::reckon_exchange(std::size_t at) {
  MachinePlan& kind = plan_.kinds[at];
  const FragmentBytes& bytes = bytes_.largest;
  const auto self = static_cast<std::uint32_t>(at);
  double delays = 0, transfers = 0, partners = 0;
  for (std::uint32_t other = 0; other < plan_.kinds.size(); ++other) {
    const double count = plan_.kinds[other].machine.count - (other == self ? 1.0 : 0.0);
    if (count <= 0) continue;
    const VirtualNetwork::Route out{self, other}, back{other, self};
    delays += count * 2 * kRoundTrips * to_seconds(kinds_network_.latency(out));
    transfers +=
        count * (bytes.push / kinds_network_.rate(out) + bytes.delta / kinds_network_.rate(back));
    partners += count;
  }
  if (partners == 0) return 0;
  kind.exchange_seconds = (delays + transfers) / partners;
  return delays / partners;
}

double Planner::own_line_seconds(const MachinePlan& kind) const {
  const VirtualLine line = planned_line(kind.machine);
  return bytes_.largest.push / line.upload + bytes_.largest.delta / line.download;
}

void Planner::plan_memory_use() {
  for (MachinePlan& kind : plan_.kinds) {
    PeerConfig config = machine_config(config_, plan_, kind, 0);
    config.micro_batch = config_.micro_batch;  // which is found here where it is open
    PlannedMemory memory = planned_memory(config, kind.machine, *layout_, *stripes_);
    kind.micro_batch = memory.micro_batch;
    kind.memory_bytes = memory.host_bytes;
    kind.gpu_memory_bytes = memory.gpu_bytes;
    plan_.misfits.insert(plan_.misfits.end(), memory.misfits.begin(), memory.misfits.end());
  }
}

// What is shortest where a machine needs `allowed` times as much.
std::string shortage(const MachinePlan& kind, double allowed) {
  struct Limit {
    const char* key;
    double need, limit;
    double over() const { return limit > 0 ? need / limit : 0; }
  };
  const PlanMachine& machine = kind.machine;
  const std::array limits{
      Limit{"upload_mbit", kind.upload_mbit, machine.upload_mbit},
      Limit{"download_mbit", kind.download_mbit, machine.download_mbit},
      Limit{"gigabytes_per_day", kind.gigabytes_per_day, machine.gigabytes_per_day}};
  const Limit& most = *std::max_element(
      limits.begin(), limits.end(),
      [](const Limit& left, const Limit& right) { return left.over() < right.over(); });
  return fmt::format("{} = {:.3g} (it has {:.3g})", most.key, most.need / allowed, most.limit);
}

void Planner::lengthen_rounds() {
  if (plan_.wire_format != config_.outer.wire_format) {
    plan_.notes.push_back(fmt::format(
        "outer.wire_format \"{}\" -> \"{}\": with more bits a line or "
        "a day's bytes would not do",
        optim::to_string(config_.outer.wire_format), optim::to_string(plan_.wire_format)));
  }
  for (std::size_t i = 0; i < plan_.kinds.size(); ++i) {
    if (plan_.kinds[i].demand > 1) lengthen_rounds_of(i);
    overlap_exchanges_of(plan_.kinds[i], delays_[i]);
  }
}

// How many times as long its rounds may be.
double longest_of(const MachinePlan& kind) {
  return std::min(kLongerMax, static_cast<double>(kStepsPerRoundMax) / kind.steps_per_round);
}

// The fewest outer.steps_per_round with which its line would do; nothing: no number does. A round
// of a slow machine has its fewest steps for some of them, and is no longer for more of the
// others'.
std::optional<std::uint32_t> Planner::steps_that_do(std::size_t at) {
  constexpr auto kMost = static_cast<std::uint32_t>(kStepsPerRoundMax);
  const SwarmPlan kept = plan_;
  const auto would_do = [&](std::uint32_t steps) {
    set_rounds(steps);
    reckon_traffic();
    return plan_.kinds[at].demand <= longest_of(plan_.kinds[at]);
  };
  std::uint32_t too_few = kept.steps_per_round, enough = too_few;
  while (enough < kMost && !would_do(enough)) {
    too_few = enough;
    enough = std::min(2 * enough, kMost);
  }
  const bool any = would_do(enough);
  while (any && enough - too_few > 1) {
    const std::uint32_t middle = too_few + (enough - too_few) / 2;
    (would_do(middle) ? enough : too_few) = middle;
  }
  plan_ = kept;
  return any ? std::optional(enough) : std::nullopt;
}

void Planner::lengthen_rounds_of(std::size_t at) {
  MachinePlan& kind = plan_.kinds[at];
  const double longest = longest_of(kind);
  if (kind.demand > longest) {
    const auto steps = steps_that_do(at);
    const std::string other =
        steps ? fmt::format("or outer.steps_per_round be {} or more", *steps)
              : fmt::format("as no round has more than {} steps", kStepsPerRoundMax);
    plan_.misfits.push_back(
        fmt::format("{}: its exchanges need {:.3g} times what it may take: it must have at least "
                    "{}, {}",
                    kind.machine.name, kind.demand, shortage(kind, longest), other));
  }
  const double longer = std::min(kind.demand, longest);
  plan_.notes.push_back(
      fmt::format("{}: rounds {:.2f} times as long: for those of the others it would need {}",
                  kind.machine.name, longer, shortage(kind, 1)));
  kind.keeps_pace = false;
  kind.steps_per_round = static_cast<std::uint32_t>(std::min(
      std::ceil(kind.steps_per_round * longer - 1e-9), static_cast<double>(kStepsPerRoundMax)));
  kind.round_seconds = kind.steps_per_round * kind.step_seconds;
  // It accepts as many times fewer as it begins fewer.
  for (double* need : {&kind.exchanges_per_hour, &kind.upload_mbit, &kind.download_mbit,
                       &kind.gigabytes_per_day, &kind.demand}) {
    *need /= longer;
  }
}

// One of each fragment at most. Bytes are no reason for a misfit here: there are as many whatever
// is under way, and lines were looked at before.
void Planner::overlap_exchanges_of(MachinePlan& kind, double delays) {
  const auto at_a_time = [&](double seconds) {
    return std::ceil(seconds * plan_.fragments / kind.round_seconds);
  };
  const double most = std::min<double>(kExchangesMax, plan_.fragments);
  kind.exchanges_at_a_time =
      std::max(config_.gossip.exchanges_initiated_max,
               static_cast<std::uint32_t>(std::clamp(at_a_time(kind.exchange_seconds), 1.0, most)));
  if (at_a_time(delays) <= most) return;
  const double steps = std::ceil(plan_.steps_per_round * at_a_time(delays) / most);
  const bool can_be = steps <= static_cast<double>(kStepsPerRoundMax);
  plan_.misfits.push_back(
      fmt::format("{}: an exchange takes {:.2g} s by its delays alone, and one is due every {:.2g} "
                  "s: {}",
                  kind.machine.name, delays, kind.round_seconds / plan_.fragments,
                  can_be ? fmt::format("outer.steps_per_round must be {:.0f} or more", steps)
                         : fmt::format("as no round has more than {} steps, batch.sequences or "
                                       "batch.tokens must be larger",
                                       kStepsPerRoundMax)));
}

void Planner::plan_contraction() {
  double exchanges = 0;  // of one fragment in a round, at any hour; each has two sides
  for (std::size_t i = 0; i < plan_.kinds.size(); ++i) {
    exchanges +=
        plan_.kinds[i].machine.count * open_.share(i) * plan_.kinds[i].exchanges_per_hour / 2;
  }
  exchanges *= plan_.round_seconds / 3600 / plan_.fragments;
  plan_.contraction = pair_contraction(config_.outer.rule.mixing, plan_.machines, exchanges);
}

void Planner::note_unknown_uploads() {
  for (const MachinePlan& kind : plan_.kinds) {
    const PlanMachine& machine = kind.machine;
    if (machine.upload_mbit > 0 || machine.download_mbit == 0) continue;
    plan_.notes.push_back(
        machine.name +
        ": upload_mbit is not given and so has no limit here; many lines carry less up than down");
  }
}

}  // namespace

Result<SwarmPlan> plan_swarm(const PeerConfig& config, std::span<const PlanMachine> machines) {
  if (config.outer.rule.method != optim::OuterMethod::kPairGossip) {
    return invalid("outer.method must be \"pair-gossip\": that is what peers exchange by");
  }
  STARLING_ASSERT(!machines.empty());
  return Planner(config, machines).plan();
}

}  // namespace starling::peer

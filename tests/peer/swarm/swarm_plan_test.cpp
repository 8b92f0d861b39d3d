#include "peer/swarm/swarm_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/rng.h"
#include "cuda/device_choice.h"
#include "peer/config/config_ranges.h"
#include "peer/swarm/shares.h"
#include "peer/swarm/swarm_plan_parts.h"

namespace starling::peer {

namespace {

PlanMachine machine_of(std::string name, double speed, std::uint32_t count = 1) {
  PlanMachine machine;
  machine.name = std::move(name);
  machine.count = count;
  machine.tokens_per_second = speed;
  return machine;
}

// Steps of 1024 tokens, 100 of them a round of 5 fragments.
PeerConfig defaults() { return parse_config("[outer]\nsteps_per_round = 100", "", {}).value(); }

SwarmPlan plan_of(const std::vector<PlanMachine>& machines, const PeerConfig& config = defaults()) {
  auto plan = plan_swarm(config, machines);
  REQUIRE(plan.ok());
  return std::move(plan).value();
}

// The number behind `key` in what a plan says that has to change.
double number_in(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key);
  CAPTURE(text);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(text.find_first_of("0123456789", at + key.size())));
}

}  // namespace

TEST_CASE("equal machines do the same, and none would wait for another") {
  const SwarmPlan plan = plan_of({machine_of("a", 10'240), machine_of("b", 10'240, 7)});
  CHECK(plan.misfits.empty());
  CHECK(plan.notes.empty());
  CHECK(plan.round_seconds == doctest::Approx(10));
  // Each begins one exchange of each fragment a round.
  CHECK(plan.contraction == doctest::Approx(pair_contraction(0.5, 8, 8)));
  for (const MachinePlan& kind : plan.kinds) {
    CHECK(kind.share == doctest::Approx(0.125));
    CHECK(kind.steps_per_round == 100);
    CHECK(kind.balanced_steps == 100);
    CHECK(kind.exchanges_per_hour == doctest::Approx(2 * 5 * 360));
    CHECK(kind.idle_all_reduce < 0.4);  // the all-reduce itself, over its delays
    CHECK(kind.micro_batch == 8);
  }
  CHECK(plan.kinds[0].idle_all_reduce == doctest::Approx(plan.kinds[1].idle_all_reduce));
}

TEST_CASE("the traffic is twice the model in every round, in the codes of the format") {
  PeerConfig config = defaults();
  for (const auto format : {optim::WireFormat::kBf16, optim::WireFormat::kMod8}) {
    config.outer.wire_format = format;
    const SwarmPlan plan = plan_of({machine_of("a", 10'240, 4)}, config);
    const double bytes = 2 * static_cast<double>(plan.parameters) * optim::code_bits(format) / 8;
    const MachinePlan& kind = plan.kinds[0];
    CHECK(kind.upload_mbit * 1e6 / 8 * kind.round_seconds == doctest::Approx(bytes).epsilon(0.01));
    CHECK(kind.download_mbit == doctest::Approx(kind.upload_mbit));
    CHECK(kind.gigabytes_per_day == doctest::Approx(2 * kind.upload_mbit * 1e6 / 8 * 86'400 / 1e9));
  }
}

TEST_CASE("a slow machine takes fewer steps, exchanges as often, and would be waited for") {
  const SwarmPlan plan = plan_of({machine_of("fast", 10'240), machine_of("slow", 1024)});
  const MachinePlan &fast = plan.kinds[0], &slow = plan.kinds[1];
  CHECK(slow.steps_per_round == 10);
  CHECK(slow.round_seconds == doctest::Approx(fast.round_seconds));
  CHECK(slow.exchanges_per_hour == doctest::Approx(fast.exchanges_per_hour));
  CHECK(fast.share == doctest::Approx(10 * slow.share));
  CHECK(fast.tokens > 9 * slow.tokens);
  CHECK(fast.idle_all_reduce > 0.85);
  CHECK(slow.idle_all_reduce < 0.1);
  CHECK(fast.idle_balanced < 0.1);
  CHECK(slow.idle_balanced < 0.1);
  CHECK(fast.balanced_steps > 9 * slow.balanced_steps);
  CHECK(fast.common_batch == 15);  // of 16
  CHECK(slow.common_batch == 1);
}

TEST_CASE("a thin line has fewer bits, then longer rounds, then is told what it would take") {
  const std::vector<PlanMachine> free{machine_of("a", 10'240, 3), machine_of("b", 10'240)};
  const double need = plan_of(free).kinds[0].upload_mbit;
  const auto with_upload = [&](double mbit) {
    std::vector<PlanMachine> machines = free;
    machines[1].upload_mbit = mbit;
    return plan_of(machines);
  };
  CHECK(with_upload(1.01 * need).wire_format == optim::WireFormat::kMod8);
  CHECK(with_upload(0.9 * need).wire_format == optim::WireFormat::kMod6);
  CHECK(with_upload(0.7 * need).wire_format == optim::WireFormat::kMod5);
  const SwarmPlan fewer_bits = with_upload(0.6 * need);
  CHECK(fewer_bits.wire_format == optim::WireFormat::kMod4);
  CHECK(fewer_bits.misfits.empty());
  CHECK(fewer_bits.notes.size() == 1);
  CHECK(fewer_bits.kinds[1].keeps_pace);

  const SwarmPlan longer = with_upload(0.25 * need);
  CHECK(longer.misfits.empty());
  CHECK(longer.kinds[0].steps_per_round == 100);
  CHECK(longer.kinds[1].steps_per_round > 150);
  CHECK(longer.kinds[1].upload_mbit <= 0.2501 * need);
  CHECK(!longer.kinds[1].keeps_pace);
  CHECK(longer.contraction > fewer_bits.contraction);

  const SwarmPlan too_thin = with_upload(0.01 * need);
  REQUIRE(too_thin.misfits.size() == 1);
  const std::string& misfit = too_thin.misfits[0];
  CHECK(misfit.starts_with("b: "));
  CHECK(with_upload(1.01 * number_in(misfit, "upload_mbit =")).misfits.empty());
  PeerConfig config = defaults();
  config.outer.rounds.steps_per_round =
      static_cast<std::uint32_t>(number_in(misfit, "outer.steps_per_round be"));
  std::vector<PlanMachine> machines = free;
  machines[1].upload_mbit = 0.01 * need;
  CHECK(plan_of(machines, config).misfits.empty());
}

TEST_CASE("rounds that a plan names do also for a machine whose own are as short as they get") {
  for (const double speed : {10'240.0, 1024.0, 102.4}) {
    for (const double times : {5.0, 8.0, 100.0}) {
      CAPTURE(speed);
      CAPTURE(times);
      std::vector<PlanMachine> machines{machine_of("fast", 10'240), machine_of("slow", speed)};
      PeerConfig config = defaults();
      config.outer.wire_format = optim::WireFormat::kMod4;
      machines[1].upload_mbit = plan_of(machines, config).kinds[1].upload_mbit / times;
      const SwarmPlan plan = plan_of(machines, config);
      REQUIRE(plan.misfits.size() == 1);
      config.outer.rounds.steps_per_round =
          static_cast<std::uint32_t>(number_in(plan.misfits[0], "outer.steps_per_round be"));
      CHECK(plan_of(machines, config).misfits.empty());
      config.outer.rounds.steps_per_round -= 10;
      CHECK(plan_of(machines, config).misfits.size() == 1);
    }
  }
}

TEST_CASE("quiet hours save bytes, and a day's bytes lengthen rounds like a thin line") {
  std::vector<PlanMachine> machines{machine_of("a", 10'240), machine_of("b", 10'240)};
  const double need = plan_of(machines).kinds[1].gigabytes_per_day;
  machines[1].quiet_hours = "22:00-10:00";
  for (const MachinePlan& kind : plan_of(machines).kinds) {
    CHECK(kind.gigabytes_per_day == doctest::Approx(need / 2));
  }
  machines[0].quiet_hours = machines[1].quiet_hours;
  const SwarmPlan same_hours = plan_of(machines);
  CHECK(same_hours.kinds[1].gigabytes_per_day == doctest::Approx(need / 2));
  CHECK(same_hours.kinds[1].upload_mbit ==
        doctest::Approx(plan_of({machine_of("a", 10'240, 2)}).kinds[0].upload_mbit));
  for (PlanMachine& machine : machines) machine.quiet_hours.clear();
  machines[1].gigabytes_per_day = need / 4;
  const SwarmPlan plan = plan_of(machines);
  CHECK(plan.misfits.empty());
  CHECK(plan.wire_format == optim::WireFormat::kMod4);
  CHECK(plan.kinds[1].gigabytes_per_day <= 1.001 * need / 4);
  CHECK(plan.kinds[1].steps_per_round > 150);
}

TEST_CASE("a small memory has a batch in parts, and one that is too small is told its size") {
  const auto with_memory = [](double gigabytes) {
    std::vector<PlanMachine> machines{machine_of("a", 10'240), machine_of("b", 10'240)};
    machines[1].memory_gb = gigabytes;
    return plan_of(machines);
  };
  const double whole = static_cast<double>(with_memory(100).kinds[1].memory_bytes) / 1e9;
  CHECK(with_memory(100).kinds[1].micro_batch == 8);
  CHECK(with_memory(1.01 * whole / 0.8).kinds[1].micro_batch == 8);
  const SwarmPlan parts = with_memory(0.95 * whole / 0.8);
  CHECK(parts.misfits.empty());
  CHECK(parts.kinds[0].micro_batch == 8);
  CHECK(parts.kinds[1].micro_batch < 8);
  const SwarmPlan none = with_memory(0.01);
  REQUIRE(none.misfits.size() == 1);
  CHECK(with_memory(1.01 * number_in(none.misfits[0], "memory_gb =")).misfits.empty());
}

TEST_CASE("a GPU's memory bounds the batch, and the host's what lies beside it") {
  PeerConfig config = defaults();
  const auto with_memory = [&config](double gpu, std::optional<double> host) {
    std::vector<PlanMachine> machines{machine_of("a", 10'240), machine_of("b", 10'240)};
    machines[1].gpu_memory_gb = gpu;
    machines[1].memory_gb = host;
    return plan_of(machines, config);
  };
  const SwarmPlan plenty = with_memory(100, 100);
  CHECK(plenty.kinds[1].micro_batch == 8);
  CHECK(plenty.kinds[0].gpu_memory_bytes == 0);
  const double on_gpu = static_cast<double>(plenty.kinds[1].gpu_memory_bytes) / 1e9;
  const double on_host = static_cast<double>(plenty.kinds[1].memory_bytes) / 1e9;
  const double all = on_gpu * 16 / 15;  // a sixteenth of a small GPU is CUDA's, beside its context
  const double context = static_cast<double>(cuda::kContextBytes) / 1e9;
  CHECK(with_memory(context + 1.01 * all, {}).kinds[1].micro_batch == 8);
  CHECK(with_memory(context + 0.99 * all, {}).kinds[1].micro_batch < 8);
  const SwarmPlan none = with_memory(0.01, {});
  REQUIRE(none.misfits.size() == 1);
  CHECK(with_memory(1.02 * number_in(none.misfits[0], "gpu_memory_gb ="), {}).misfits.empty());
  CHECK(with_memory(100, 1.01 * on_host / 0.8).misfits.empty());
  const SwarmPlan little = with_memory(100, 0.99 * on_host / 0.8);
  REQUIRE(little.misfits.size() == 1);
  CHECK(little.misfits[0].find("batch") == std::string::npos);  // which is on the GPU
  CHECK(with_memory(0.01, 0.99 * on_host / 0.8).misfits.size() == 2);
  config.device.name = "cpu";  // for which the GPU is nothing
  CHECK(with_memory(0.01, {}).misfits.empty());
}

TEST_CASE("the memory of a machine grows with its threads, which are 16 where nobody says") {
  const auto bytes = [](std::uint32_t threads) {
    PeerConfig config = defaults();
    config.device.threads = threads;
    return plan_of({machine_of("a", 10'240), machine_of("b", 10'240)}, config)
        .kinds[0]
        .memory_bytes;
  };
  CHECK(bytes(0) == bytes(16));
  CHECK(bytes(32) - bytes(16) == 2 * (bytes(16) - bytes(8)));
  CHECK(bytes(32) > bytes(16));
}

TEST_CASE("over long delays several exchanges are under way, or rounds must be longer") {
  std::vector<PlanMachine> machines{machine_of("a", 10'240'000), machine_of("b", 10'240'000)};
  for (PlanMachine& machine : machines) machine.round_trip_ms = 3;  // a round takes 10 ms
  const SwarmPlan plan = plan_of(machines);
  CHECK(plan.misfits.empty());
  CHECK(plan.kinds[0].exchanges_at_a_time > 1);
  CHECK(machine_config(defaults(), plan, plan.kinds[0], 0).gossip.exchanges_initiated_max ==
        plan.kinds[0].exchanges_at_a_time);
  for (PlanMachine& machine : machines) machine.round_trip_ms = 1000;
  const SwarmPlan far = plan_of(machines);
  REQUIRE(!far.misfits.empty());
  PeerConfig config = defaults();
  config.outer.rounds.steps_per_round =
      static_cast<std::uint32_t>(number_in(far.misfits[0], "outer.steps_per_round must be"));
  CHECK(plan_of(machines, config).misfits.empty());
}

TEST_CASE("a line is what may be taken of it, and half of its round trip each way") {
  PlanMachine machine = machine_of("a", 1);
  machine.upload_mbit = 8;
  machine.round_trip_ms = 30;
  const VirtualLine line = planned_line(machine);
  CHECK(line.upload == 1e6);
  CHECK(line.download > 1e9);
  CHECK(line.latency == std::chrono::milliseconds(15));
}

TEST_CASE("regions have the delays of their table") {
  std::vector<PlanMachine> machines{machine_of("a", 10'240), machine_of("b", 10'240)};
  machines[0].region = machines[1].region = 7;
  const double near = plan_of(machines).kinds[0].exchange_seconds;
  machines[1].region = 6;
  CHECK(plan_of(machines).kinds[0].exchange_seconds > 4 * near);
}

TEST_CASE("the configurations of a plan are valid and train what was planned") {
  PeerConfig base = defaults();
  base.gossip.advertise = "here.example:7700";
  std::vector<PlanMachine> machines{machine_of("fast", 10'240), machine_of("slow", 999, 3)};
  machines[1].upload_mbit = 0.2;
  machines[1].quiet_hours = "22:00-23:00";
  const SwarmPlan plan = plan_of(machines, base);
  CHECK(plan.misfits.empty());
  const PeerConfig fast = machine_config(base, plan, plan.kinds[0], 0);
  const PeerConfig slow = machine_config(base, plan, plan.kinds[1], 2);
  CHECK(fast.run.peer_name == "fast");
  CHECK(slow.run.peer_name == "slow-2");
  CHECK(slow.bandwidth.upload_mbit == 0.2);
  CHECK(slow.bandwidth.quiet_hours == "22:00-23:00");
  CHECK(fast.outer.local_steps == LocalSteps::kDynamic);
  CHECK(slow.outer.local_steps ==
        (plan.kinds[1].keeps_pace ? LocalSteps::kDynamic : LocalSteps::kFixed));
  CHECK(fast.run.tokens + 3 * slow.run.tokens == plan.total_tokens);
  CHECK(fast.run.total_tokens == plan.total_tokens);
  CHECK(fast.schedule.total_tokens == static_cast<double>(plan.total_tokens));
  CHECK(fast.schedule.decay_start_tokens == std::round(0.8 * fast.schedule.total_tokens));
  CHECK(plan.total_tokens >= 4'000'000);
  CHECK(plan.total_tokens < 4'010'000);
  for (const PeerConfig& one : {fast, slow}) {
    CHECK(validate(one).ok());
    CHECK(one.gossip.advertise.empty());  // or all would claim one address
    auto again = parse_config(dump(one), "written", {});
    REQUIRE(again.ok());
    CHECK(dump(again.value()) == dump(one));
  }
}

TEST_CASE("limits and parts of a batch that the run's configuration sets are kept") {
  PeerConfig base = defaults();
  base.bandwidth.gigabytes_per_day = 50;
  base.bandwidth.quiet_hours = "19:00-23:00";
  std::vector<PlanMachine> machines{machine_of("one", 1000), machine_of("two", 1000)};
  machines[1].gigabytes_per_day = 20;
  machines[1].memory_gb = 4;
  const SwarmPlan plan = plan_of(machines, base);
  const PeerConfig one = machine_config(base, plan, plan.kinds[0], 0);
  const PeerConfig two = machine_config(base, plan, plan.kinds[1], 0);
  CHECK(one.bandwidth.gigabytes_per_day == 50);
  CHECK(one.bandwidth.quiet_hours == "19:00-23:00");
  CHECK(two.bandwidth.gigabytes_per_day == 20);
  CHECK_FALSE(one.micro_batch);  // found at the start, from the memory that is free
  CHECK(two.micro_batch == plan.kinds[1].micro_batch);
  base.micro_batch = 2;
  const SwarmPlan set = plan_of(machines, base);
  CHECK(machine_config(base, set, set.kinds[0], 0).micro_batch == 2);
  CHECK(machine_config(base, set, set.kinds[1], 0).micro_batch == 2);
}

TEST_CASE("no plan makes a round longer than a configuration may, and it says so") {
  PeerConfig config = defaults();
  config.outer.rounds.steps_per_round = 400'000;
  std::vector<PlanMachine> machines{machine_of("a", 10'240), machine_of("b", 10'240)};
  machines[1].upload_mbit = 0.25 * plan_of(machines, config).kinds[1].upload_mbit;
  const SwarmPlan longer = plan_of(machines, config);  // in fewer bits twice as long is enough
  CHECK(longer.misfits.empty());
  CHECK(longer.kinds[1].steps_per_round > 700'000);
  machines[1].upload_mbit /= 2;
  const SwarmPlan plan = plan_of(machines, config);
  CHECK(plan.kinds[1].steps_per_round == kStepsPerRoundMax);
  REQUIRE(plan.misfits.size() == 1);
  CHECK(plan.misfits[0].find("more than 1000000 steps") != std::string::npos);
  machines[1].upload_mbit = 1.01 * number_in(plan.misfits[0], "upload_mbit =");
  CHECK(plan_of(machines, config).misfits.empty());
}

TEST_CASE("whatever is planned, the reader of configurations takes it") {
  int clamped = 0, refused = 0, written = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const auto between = [&rng](double first, double last) {  // in the logarithm
      return first * std::pow(last / first, rng.unit());
    };
    const auto chance = [&rng] { return rng.below(2) == 0; };
    PeerConfig config = defaults();
    config.outer.rounds.steps_per_round =
        static_cast<std::uint32_t>(between(config.outer.rounds.fragments, 1e6));
    config.run.tokens = static_cast<std::uint64_t>(between(2048, 1e15));
    config.run.total_tokens = chance() ? config.run.tokens : 2 * config.run.tokens;
    config.schedule.total_tokens = static_cast<double>(config.run.total_tokens);
    config.schedule.warmup_tokens = 0.1 * config.schedule.total_tokens;
    config.schedule.decay_start_tokens = derived_decay_start(config.schedule);
    if (!validate(config).ok()) continue;  // a total above what a configuration takes, say
    std::vector<PlanMachine> machines;
    for (std::uint64_t kinds = 1 + rng.below(4); machines.size() < kinds;) {
      PlanMachine machine =
          machine_of("machine" + std::to_string(machines.size()), between(1e-2, 1e8),
                     static_cast<std::uint32_t>(between(1, 20)));
      if (chance()) machine.upload_mbit = between(0.001, 1e6);
      if (chance()) machine.download_mbit = between(0.001, 1e6);
      if (chance()) machine.gigabytes_per_day = between(0.001, 1e6);
      if (chance()) machine.round_trip_ms = between(1e-3, 1e6);
      if (chance()) machine.memory_gb = between(1e-3, 1e6);
      if (chance()) machine.quiet_hours = "22:00-07:30";
      machines.push_back(std::move(machine));
    }
    auto planned = plan_swarm(config, machines);
    if (!planned.ok()) {
      CHECK(planned.error().message().find("lower run.tokens") != std::string::npos);
      ++refused;
      continue;
    }
    const SwarmPlan& plan = planned.value();
    for (const MachinePlan& kind : plan.kinds) {
      const PeerConfig one = machine_config(config, plan, kind, kind.machine.count - 1);
      const auto again = parse_config(dump(one), "written", {});
      const std::string why = again.ok() ? "" : again.error().message();
      CHECK(why == "");
      clamped += kind.steps_per_round == kStepsPerRoundMax && !plan.misfits.empty() ? 1 : 0;
      written += plan.misfits.empty() ? 1 : 0;
    }
  }
  CHECK(clamped > 0);
  CHECK(refused > 0);
  CHECK(written > 0);
}

TEST_CASE("only pair-gossip is planned, and one machine alone needs no line") {
  PeerConfig config = defaults();
  config.outer.rule.method = optim::OuterMethod::kLocal;
  const std::vector<PlanMachine> machines{machine_of("a", 1)};
  CHECK(!plan_swarm(config, machines).ok());
  const SwarmPlan plan = plan_of(machines);
  CHECK(plan.kinds[0].upload_mbit == 0);
  CHECK(plan.contraction == 1);
  CHECK(plan.kinds[0].idle_all_reduce == 0);
}

}  // namespace starling::peer

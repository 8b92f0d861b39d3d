#include "peer/config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/host.h"
#include "peer/config/addresses.h"
#include "peer/config/traffic_plan.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

Status invalid_setting(std::string message) {
  return Error(ErrorCode::kInvalidConfig, std::move(message));
}

Status validate_run(const PeerConfig& config) {
  if (!is_plain_name(config.run.name)) {
    return invalid_setting(
        "run.name must consist of letters, digits, '.', '_' and '-', and begin with a "
        "letter or digit");
  }
  if (!is_plain_name(config.run.peer_name)) {
    return invalid_setting(
        "run.peer_name must consist of letters, digits, '.', '_' and '-', and begin "
        "with a letter or digit");
  }
  if (config.run.total_tokens < config.run.tokens) {
    return invalid_setting(
        fmt::format("run.total_tokens = {} must not be below run.tokens = {}: this "
                    "peer is part of the swarm",
                    config.run.total_tokens, config.run.tokens));
  }
  const auto step_tokens = static_cast<std::uint64_t>(config.batch.sequences * config.batch.tokens);
  if (config.run.tokens < step_tokens) {
    return invalid_setting(
        fmt::format("run.tokens = {} does not cover one step of batch.sequences * "
                    "batch.tokens = {}",
                    config.run.tokens, step_tokens));
  }
  if (config.micro_batch && config.batch.sequences % *config.micro_batch != 0) {
    return invalid_setting(fmt::format("batch.micro = {} must divide batch.sequences = {} evenly",
                                       *config.micro_batch, config.batch.sequences));
  }
  if (config.batch.tokens > config.model.context) {
    return invalid_setting(fmt::format("batch.tokens = {} must not exceed model.context = {}",
                                       config.batch.tokens, config.model.context));
  }
  return ok_status();
}

Status validate_schedule(const PeerConfig& config) {
  const optim::LrConfig& schedule = config.schedule;
  if (schedule.warmup_tokens > schedule.total_tokens) {
    return invalid_setting(
        fmt::format("schedule.warmup_tokens = {} must not exceed schedule.total_tokens = {} (where "
                    "it is not set: run.total_tokens, or what all peers train by run.tokens)",
                    schedule.warmup_tokens, schedule.total_tokens));
  }
  if (schedule.shape != optim::LrShape::kWarmupStableDecay) return ok_status();
  if (schedule.decay_start_tokens < schedule.warmup_tokens) {
    return invalid_setting(
        fmt::format("schedule.decay_start_tokens = {} must not be below "
                    "schedule.warmup_tokens = {}",
                    schedule.decay_start_tokens, schedule.warmup_tokens));
  }
  if (schedule.decay_start_tokens > schedule.total_tokens) {
    return invalid_setting(
        fmt::format("schedule.decay_start_tokens = {} must not exceed "
                    "schedule.total_tokens = {}",
                    schedule.decay_start_tokens, schedule.total_tokens));
  }
  return ok_status();
}

Status validate_method(const PeerConfig& config, ConfigUse use) {
  const optim::OuterMethod method = config.outer.rule.method;
  if (use == ConfigUse::kPeer && !optim::is_outer_rule(method)) {
    return invalid_setting(
        "outer.method: a peer runs \"pair-gossip\" or \"local\"; the other methods run in "
        "'starling simulate' only");
  }
  const std::uint32_t steps = config.outer.rounds.steps_per_round;
  if (method == optim::OuterMethod::kAllReduce && steps != 1) {
    return invalid_setting(fmt::format(
        "outer.steps_per_round = {} must be 1 where outer.method is \"all-reduce\": gradients are "
        "averaged in every step",
        steps));
  }
  if (config.outer.rule.overlap_steps >= steps && method == optim::OuterMethod::kStreamingDiloco) {
    return invalid_setting(
        fmt::format("outer.overlap_steps = {} must be below outer.steps_per_round = {}: the next "
                    "round of a fragment begins then",
                    config.outer.rule.overlap_steps, steps));
  }
  return optim::validate(config.outer.rule, config.simulate.peers);
}

Status validate_outer(const PeerConfig& config, ConfigUse use) {
  const optim::FragmentSchedule& rounds = config.outer.rounds;
  if (rounds.fragments > config.model.layers + 1) {
    return invalid_setting(
        fmt::format("outer.fragments = {} must not exceed model.layers + 1 = {}: a "
                    "layer is not cut",
                    rounds.fragments, config.model.layers + 1));
  }
  if (rounds.fragments > rounds.steps_per_round) {
    return invalid_setting(
        fmt::format("outer.fragments = {} must not exceed outer.steps_per_round = {}: "
                    "at most one fragment is due after a step",
                    rounds.fragments, rounds.steps_per_round));
  }
  if (config.outer.clip_factor > 0 && config.outer.clip_factor < 1) {
    return invalid_setting(
        fmt::format("outer.clip_factor = {} must be at least 1, or 0 for none: it would scale down "
                    "every difference, also the usual ones",
                    config.outer.clip_factor));
  }
  return validate_method(config, use);
}

Status validate_quiet_hours(const PeerConfig& config) {
  const std::string& text = config.bandwidth.quiet_hours;
  auto quiet = parse_quiet_hours(text);
  if (!quiet.ok()) return std::move(quiet).error().with_context("bandwidth.quiet_hours");
  const bool exchanges = config.outer.rule.method != optim::OuterMethod::kLocal;
  if (!exchanges || !quiet.value() || !quiet.value()->always()) return ok_status();
  return invalid_setting(
      fmt::format("bandwidth.quiet_hours = {} are the whole day and leave no time for exchanges: "
                  "such a peer trains alone. Let them end before they begin again, or set them to "
                  "\"\" for none; to train alone set outer.method = \"local\"",
                  text));
}

Status validate_trust(const PeerConfig& config) {
  if (config.outer.rule.method == optim::OuterMethod::kLocal) return ok_status();
  const std::string& listen = config.gossip.listen;
  if (listen.empty() || !config.trust.allow.empty() || !config.trust.secret.empty()) {
    return ok_status();
  }
  auto address = parse_address(listen, config.gossip.bulk_port);
  if (!address.ok() || reach_of(gossip::host(address.value())) == Reach::kThisMachine) {
    return ok_status();
  }
  return invalid_setting(
      fmt::format("gossip.listen = {} takes calls from other machines, so say who may call: set "
                  "trust.allow to a file with the keys of the others, one a line, or trust.secret "
                  "to a file that all share ('starling keygen --secret FILE' makes one)",
                  listen));
}

// Empty: others could call it, as far as it tells.
std::string_view why_uncallable(const gossip::PeerAddress& address) {
  if (address.control_port == 0) return "has port 0, which means any free one where a peer listens";
  if (reach_of(gossip::host(address)) != Reach::kUnspecified) return {};
  return "means all addresses of a machine that listens, and is none to call";
}

Status validate_listen(const GossipSettings& gossip) {
  if (gossip.listen.empty()) {
    if (!gossip.advertise.empty()) {
      return invalid_setting(
          fmt::format("gossip.advertise = {} names an address, but gossip.listen is "
                      "empty: nobody would answer there",
                      gossip.advertise));
    }
    if (!gossip.seeds.empty()) return ok_status();
    return invalid_setting(
        "gossip.listen is empty, so gossip.seeds must name somebody to call: nobody can call "
        "this peer");
  }
  auto listen = parse_address(gossip.listen, gossip.bulk_port);
  if (!listen.ok()) return std::move(listen).error().with_context("gossip.listen");
  const gossip::PeerAddress& address = listen.value();
  if (address.control_port != 0 && address.control_port == address.bulk_port) {
    return invalid_setting(
        fmt::format("gossip.bulk_port = {} must differ from the port of gossip.listen "
                    "= {}",
                    gossip.bulk_port, gossip.listen));
  }
  if (gossip.advertise.empty() && reach_of(gossip::host(address)) == Reach::kUnspecified) {
    return invalid_setting(
        fmt::format("gossip.listen = {} takes calls for any address, so "
                    "gossip.advertise must name the address that other peers shall call",
                    gossip.listen));
  }
  if (!gossip.advertise.empty()) {
    auto advertised = parse_address(gossip.advertise, 0);
    if (!advertised.ok()) return std::move(advertised).error().with_context("gossip.advertise");
    const std::string_view fault = why_uncallable(advertised.value());
    if (!fault.empty()) {
      return invalid_setting(fmt::format(
          "gossip.advertise = {} {}; write the host and port at which others reach this "
          "machine, like \"192.0.2.1:7700\"",
          gossip.advertise, fault));
    }
  }
  return ok_status();
}

Status validate_gossip(const GossipSettings& gossip) {
  Status listen = validate_listen(gossip);
  if (!listen.ok()) return listen;
  for (const std::string& seed : gossip.seeds) {
    auto parsed = parse_seed(seed);
    if (!parsed.ok()) return std::move(parsed).error().with_context("gossip.seeds");
    const std::string_view fault = why_uncallable(parsed.value());
    if (fault.empty()) continue;
    return invalid_setting(
        fmt::format("gossip.seeds: {} {}; write what that peer logs when it starts, "
                    "like \"KEY@192.0.2.1:7700\"",
                    seed, fault));
  }
  if (gossip.suspect_after_ms <= gossip.ping_interval_ms) {
    return invalid_setting(
        fmt::format("gossip.suspect_after_ms = {} must exceed gossip.ping_interval_ms "
                    "= {}, or peers are doubted between two pings",
                    gossip.suspect_after_ms, gossip.ping_interval_ms));
  }
  if (gossip.slots != 0 && gossip.slots < gossip.window * 2U) {
    return invalid_setting(
        fmt::format("gossip.slots = {} must be at least twice gossip.window = {}: one "
                    "window for each direction",
                    gossip.slots, gossip.window));
  }
  return ok_status();
}

// Whether who listens at both can have a port but once. What a name stands for shows only later.
bool share_ports(std::string_view left, std::string_view right) {
  const auto includes = [](std::string_view all, std::string_view one) {
    if (reach_of(all) != Reach::kUnspecified) return false;
    // [::] takes calls to addresses of IPv4 as well, 0.0.0.0 none to those of IPv6.
    const auto is_ipv6 = [](std::string_view host) { return host.find(':') != std::string::npos; };
    return is_ipv6(all) || !is_ipv6(one);
  };
  return left == right || includes(left, right) || includes(right, left);
}

// The page's port is taken before those of the link, which would fail then.
Status validate_status_port(const PeerConfig& config, const gossip::PeerAddress& page) {
  const GossipSettings& gossip = config.gossip;
  auto listen = parse_address(gossip.listen, gossip.bulk_port);
  if (!listen.ok()) return std::move(listen).error().with_context("gossip.listen");
  const gossip::PeerAddress& link = listen.value();
  const std::uint16_t port = page.control_port;
  if (port == 0 || !share_ports(gossip::host(page), gossip::host(link))) return ok_status();
  if (port == link.control_port) {
    return invalid_setting(
        fmt::format("status.listen = {} must not have the port of gossip.listen = {}: give it "
                    "another one, or \"\" for no page",
                    config.status.listen, gossip.listen));
  }
  if (port == link.bulk_port) {
    return invalid_setting(
        fmt::format("status.listen = {} must not have the port of the weights, gossip.bulk_port = "
                    "{} (0: the port after that of gossip.listen = {}): give it another one, or "
                    "\"\" for no page",
                    config.status.listen, gossip.bulk_port, gossip.listen));
  }
  return ok_status();
}

Status validate_status(const PeerConfig& config, ConfigUse use) {
  if (config.status.listen.empty()) return ok_status();
  auto page = parse_status_listen(config.status.listen);
  if (!page.ok()) return std::move(page).error();
  const bool listens = use == ConfigUse::kPeer && !config.gossip.listen.empty() &&
                       config.outer.rule.method != optim::OuterMethod::kLocal;
  return listens ? validate_status_port(config, page.value()) : ok_status();
}

}  // namespace

Status validate(const PeerConfig& config, ConfigUse use) {
  auto model = model::validate(config.model);
  if (!model.ok()) return model;
  auto run = validate_run(config);
  if (!run.ok()) return run;
  auto schedule = validate_schedule(config);
  if (!schedule.ok()) return schedule;
  auto outer = validate_outer(config, use);
  if (!outer.ok()) return outer;
  if (config.data.train.empty()) {
    return invalid_setting("data.train names no token shards; make some with 'starling prepare'");
  }
  if (use == ConfigUse::kStored) return ok_status();
  auto quiet = validate_quiet_hours(config);
  if (!quiet.ok()) return quiet;
  auto gossip = validate_gossip(config.gossip);
  if (!gossip.ok()) return gossip;
  auto status = validate_status(config, use);
  if (!status.ok()) return status;
  return validate_trust(config);
}

gossip::GossipConfig gossip_config(const PeerConfig& config) {
  const GossipSettings& settings = config.gossip;
  using std::chrono::milliseconds;
  gossip::GossipConfig result;
  result.ping_interval = milliseconds(settings.ping_interval_ms);
  result.suspect_after = milliseconds(settings.suspect_after_ms);
  result.dead_after = milliseconds(settings.dead_after_ms);
  result.redial_interval = milliseconds(settings.redial_interval_ms);
  result.peers_max = settings.peers_max;
  result.connections_max = settings.connections_max;
  result.mixing = config.outer.rule.mixing;
  result.rate_power = config.outer.rule.rate_power;
  result.lag_discount = config.outer.lag_discount;
  result.format = static_cast<std::uint8_t>(config.outer.wire_format);
  // Without observed differences there are no steps for modular codes; full precision stays itself.
  result.cold_format = static_cast<std::uint8_t>(config.outer.wire_format == optim::WireFormat::kF32
                                                     ? optim::WireFormat::kF32
                                                     : optim::WireFormat::kBf16);
  result.initiated_max = settings.exchanges_initiated_max;
  result.accepted_max = settings.exchanges_accepted_max;
  result.window = settings.window;
  result.partners_tried_max = settings.partners_tried_max;
  result.locality = settings.locality;
  result.offer_timeout = milliseconds(settings.offer_timeout_ms);
  result.stripe_timeout = milliseconds(settings.stripe_timeout_ms);
  result.query_after = milliseconds(settings.query_after_ms);
  result.newcomer_tokens = config.join.newcomer_tokens;
  result.missed_max = from_seconds(config.join.missed_seconds);
  result.state = {.moments = config.join.state == JoinState::kWeightsAndMoments,
                  .donors_max = config.join.donors,
                  .serve_max = config.join.serve_max,
                  .wait = from_seconds(config.join.wait_seconds),
                  .patience = from_seconds(config.join.patience_seconds)};
  result.silence_min = milliseconds(settings.silence_min_ms);
  result.relay = {.volunteer = config.relay.volunteer,
                  .use = config.relay.use,
                  .holders_max = config.relay.holders};
  return result;
}

optim::OuterDefaults outer_defaults(optim::OuterMethod method, std::int64_t layers) {
  optim::OuterDefaults defaults = optim::outer_defaults(method);
  defaults.rounds.fragments =
      static_cast<std::uint16_t>(std::min<std::int64_t>(defaults.rounds.fragments, layers + 1));
  return defaults;
}

std::string run_title(const PeerConfig& config) {
  const model::LlamaConfig& model = config.model;
  return fmt::format(
      "run {}, llama vocabulary {} width {} layers {} heads {}/{} ffn {}, {} "
      "fragments",
      config.run.name, model.vocabulary, model.width, model.layers, model.heads, model.kv_heads,
      model.ffn, config.outer.rounds.fragments);
}

}  // namespace starling::peer

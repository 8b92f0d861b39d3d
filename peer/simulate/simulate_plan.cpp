#include "peer/simulate/simulate_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/parse_number.h"
#include "peer/config/config_ranges.h"

namespace starling::peer {

namespace {

constexpr double kSecondsMax = 1e9;
constexpr double kSpeedMin = 1e-4, kSpeedMax = 1e4;
constexpr double kEvaluations = 20;

Error invalid(std::string message) { return Error(ErrorCode::kInvalidConfig, std::move(message)); }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string_view::npos;
       at = text.find_first_not_of(' ', at)) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

template <class Number>
std::optional<Number> number_of(std::string_view text, Number first, Number last) {
  const auto value = parse_number<Number>(text);
  const bool inside = value && *value >= first && *value <= last;  // so a NaN is out of range
  return inside ? value : std::nullopt;
}

// "1", "0.25" or "1/4".
std::optional<double> speed_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto over = number_of<double>(text.substr(0, slash), kSpeedMin, kSpeedMax);
  if (slash == std::string_view::npos || !over) return over;
  const auto under = number_of<double>(text.substr(slash + 1), kSpeedMin, kSpeedMax);
  if (!under) return std::nullopt;
  const double speed = *over / *under;
  return speed >= kSpeedMin && speed <= kSpeedMax ? std::optional(speed) : std::nullopt;
}

Status read_speeds(const SimulateSettings& settings, SimulatePlan& plan) {
  for (const std::string& text : settings.speeds) {
    const auto speed = speed_of(text);
    if (!speed) {
      return invalid(
          fmt::format("simulate.speeds: \"{}\" is no speed; write \"1\", \"1/4\" or "
                      "\"0.1\", from {} to {}",
                      text, kSpeedMin, kSpeedMax));
    }
    plan.speeds.push_back(*speed);
  }
  if (plan.speeds.empty()) return invalid("simulate.speeds is empty: name at least one, \"1\"");
  return ok_status();
}

VirtualLine line_of(double latency_ms, double upload, double download, double loss) {
  return {.latency = from_seconds(latency_ms / 1000),
          .upload = upload * kBytesPerMbit,
          .download = download * kBytesPerMbit,
          .loss = loss};
}

Status read_lines(const SimulateSettings& settings, SimulatePlan& plan) {
  for (const std::string& text : settings.links) {
    const auto words = words_of(text);
    const auto at = [&words](std::size_t i, double first, double last) {
      return i < words.size() ? number_of<double>(words[i], first, last) : std::nullopt;
    };
    const auto latency = at(0, 0, 1e6), upload = at(1, 1e-3, 1e6), download = at(2, 1e-3, 1e6),
               loss = at(3, 0, 0.9);
    if (words.size() != 4 || !latency || !upload || !download || !loss) {
      return invalid(
          fmt::format("simulate.links: \"{}\" is no line; write milliseconds one way, "
                      "megabits per second up and down, and the share lost, like \"40 "
                      "20 100 0.01\"",
                      text));
    }
    plan.lines.push_back(line_of(*latency, *upload, *download, *loss));
  }
  if (plan.lines.empty()) {
    plan.lines.push_back(
        line_of(settings.latency_ms, settings.upload_mbit, settings.download_mbit, settings.loss));
  }
  if (settings.network == SimulatedNetwork::kRegions) {
    // In turn, like the kinds of lines: after so many every pair of the two has come up.
    const std::size_t kinds = plan.lines.size();
    const std::size_t all = std::lcm(kinds, kRegionNames.size());
    for (std::size_t i = kinds; i < all; ++i) plan.lines.push_back(plan.lines[i % kinds]);
    for (std::size_t i = 0; i < all; ++i) plan.lines[i].region = i % kRegionNames.size();
  }
  return ok_status();
}

std::optional<Happening> happening_of(std::string_view text) {
  const auto words = words_of(text);
  if (words.size() < 2) return std::nullopt;
  const auto at = number_of<double>(words[0], 0, kSecondsMax);
  if (!at) return std::nullopt;
  Happening happening{.at = Instant{} + from_seconds(*at)};
  const std::string_view verb = words[1];
  if (verb == "join" && words.size() == 2) {
    happening.kind = Happening::Kind::kJoin;
    return happening;
  }
  const auto peer = words.size() > 2 ? number_of<std::uint32_t>(words[2], 0, 65535) : std::nullopt;
  if (!peer) return std::nullopt;
  happening.peer = *peer;
  if ((verb == "crash" || verb == "leave") && words.size() == 3) {
    happening.kind = verb == "crash" ? Happening::Kind::kCrash : Happening::Kind::kLeave;
    return happening;
  }
  const auto length =
      words.size() == 4 ? number_of<double>(words[3], 0, kSecondsMax) : std::nullopt;
  if (verb != "partition" || !length) return std::nullopt;
  happening.kind = Happening::Kind::kPartition;
  happening.length = from_seconds(*length);
  return happening;
}

Status read_schedule(const SimulateSettings& settings, SimulatePlan& plan) {
  plan.peers_ever = settings.peers;
  for (const std::string& text : settings.schedule) {
    const auto happening = happening_of(text);
    if (!happening) {
      return invalid(
          fmt::format("simulate.schedule: \"{}\" is none of \"SECONDS crash PEER\", "
                      "\"SECONDS leave PEER\", \"SECONDS join\" and \"SECONDS "
                      "partition PEERS SECONDS\"",
                      text));
    }
    if (happening->kind == Happening::Kind::kJoin) ++plan.peers_ever;
    plan.schedule.push_back(*happening);
  }
  for (const Happening& happening : plan.schedule) {
    if (happening.kind == Happening::Kind::kPartition &&
        (happening.peer == 0 || happening.peer >= plan.peers_ever)) {
      return invalid(fmt::format("simulate.schedule cuts {} peers off from {} others: name 1 to {}",
                                 happening.peer,
                                 plan.peers_ever - std::min(happening.peer, plan.peers_ever),
                                 std::max(plan.peers_ever, 2U) - 1));
    }
    if (happening.peer >= plan.peers_ever) {
      return invalid(
          fmt::format("simulate.schedule names peer {}, but with simulate.peers = {} "
                      "and those who join there are 0 to {}",
                      happening.peer, settings.peers, plan.peers_ever - 1));
    }
  }
  return ok_status();
}

Status read_hostile(const SimulateSettings& settings, SimulatePlan& plan) {
  if (settings.hostile >= settings.peers) {
    return invalid(
        fmt::format("simulate.hostile = {} of simulate.peers = {} leaves nobody to be measured: "
                    "lower it to {} or less",
                    settings.hostile, settings.peers, settings.peers - 1));
  }
  plan.first_hostile = settings.peers - settings.hostile;
  plan.hostile = settings.hostile;
  return ok_status();
}

// After the schedule: those who join count, and come into rooms, too.
Status read_rooms(const SimulateSettings& settings, SimulatePlan& plan) {
  if (settings.rooms.empty()) return ok_status();
  if (settings.network == SimulatedNetwork::kRegions) {
    return invalid("simulate.rooms needs simulate.network = \"uniform\": regions have their own");
  }
  const std::vector<VirtualLine> kinds = std::move(plan.lines);
  plan.lines.clear();
  for (std::uint32_t peer = 0; peer < plan.peers_ever; ++peer) {
    plan.lines.push_back(kinds[peer % kinds.size()]);
  }
  std::size_t housed = 0;
  for (const std::string& text : settings.rooms) {
    const auto words = words_of(text);
    const auto at = [&words](std::size_t i, double first, double last) {
      return i < words.size() ? number_of<double>(words[i], first, last) : std::nullopt;
    };
    const auto peers =
        words.empty() ? std::nullopt : number_of<std::uint32_t>(words[0], 1, plan.peers_ever);
    const auto latency = at(1, 0, 1e6), upload = at(2, 1e-3, 1e6), download = at(3, 1e-3, 1e6);
    if (words.size() != 4 || !peers || !latency || !upload || !download) {
      return invalid(
          fmt::format("simulate.rooms: \"{}\" is no room; write how many peers (all are {}), "
                      "milliseconds one way and megabits per second up and down, like \"4 40 20 "
                      "20\"",
                      text, plan.peers_ever));
    }
    if (*peers > plan.peers_ever - housed) {
      return invalid(
          fmt::format("simulate.rooms has room for more than the {} peers that "
                      "simulate.peers and simulate.schedule name",
                      plan.peers_ever));
    }
    for (std::uint32_t i = 0; i < *peers; ++i) plan.lines[housed++].room = plan.rooms.size();
    const VirtualLine shared = line_of(*latency, *upload, *download, 0);
    plan.rooms.push_back({shared.latency, shared.upload, shared.download});
  }
  return ok_status();
}

// What the clock, of 64 bits of nanoseconds, can count.
Status check_paces(const SimulateSettings& settings, SimulatePlan& plan) {
  const double slowest = settings.step_seconds * settings.change_factor /
                         *std::min_element(plan.speeds.begin(), plan.speeds.end());
  if (slowest > kSecondsMax) {
    return invalid(
        fmt::format("simulate: the slowest peer's step takes {:.3g} s, more than {:.0e}: lower "
                    "simulate.step_seconds or simulate.change_factor, or raise simulate.speeds",
                    slowest, kSecondsMax));
  }
  if (settings.change_factor > 1 && settings.change_seconds < settings.step_seconds / 1000) {
    return invalid(
        fmt::format("simulate.change_seconds = {:.3g} is below a thousandth of "
                    "simulate.step_seconds = {:.3g}: raise it",
                    settings.change_seconds, settings.step_seconds));
  }
  return ok_status();
}

}  // namespace

Result<SimulatePlan> simulate_plan(const SimulateSettings& settings, std::uint64_t step_tokens,
                                   std::uint64_t total_tokens) {
  SimulatePlan plan;
  for (const auto read :
       {read_speeds, check_paces, read_lines, read_schedule, read_rooms, read_hostile}) {
    if (Status done = read(settings, plan); !done.ok()) return std::move(done).error();
  }
  double seconds = settings.seconds;
  if (seconds == 0) {
    double speeds = 0;
    for (std::uint32_t peer = 0; peer < settings.peers; ++peer) speeds += plan.speed(peer);
    seconds = static_cast<double>(total_tokens) / static_cast<double>(step_tokens) *
              settings.step_seconds / speeds;
    if (seconds > kSecondsMax) {
      return invalid(
          fmt::format("simulate: the run would take {:.3g} virtual seconds, more than {:.0e}: set "
                      "simulate.seconds, or lower run.tokens or simulate.step_seconds",
                      seconds, kSecondsMax));
    }
  }
  plan.end = Instant{} + from_seconds(settings.seconds > 0 ? settings.seconds : kSecondsMax);
  plan.evaluate_every = from_seconds(settings.evaluate_seconds > 0 ? settings.evaluate_seconds
                                                                   : seconds / kEvaluations);
  return plan;
}

Result<PeerConfig> load_simulation(const std::filesystem::path& file,
                                   std::span<const std::string> overrides) {
  const auto load = [&](std::uint64_t total_tokens) {
    std::vector<std::string> all = {fmt::format("run.total_tokens={}", total_tokens)};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_config(file, all, ConfigUse::kSimulate);
  };
  // The budget has to be known first; no bound of the schedule is above so large a total.
  auto first = load(kTokensMax);
  if (!first.ok()) return first;
  const PeerConfig& known = first.value();
  if (known.run.tokens > static_cast<std::uint64_t>(kTokensMax) / known.simulate.peers) {
    return invalid("run.tokens times simulate.peers is more than anybody trains");
  }
  return load(known.run.tokens * known.simulate.peers);
}

}  // namespace starling::peer

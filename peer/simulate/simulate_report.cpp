#include "peer/simulate/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "peer/config/config_describe.h"

namespace starling::peer {

namespace {

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

// "12.3 M"
std::string short_count(double value) {
  for (const auto& [size, letter] : {std::pair{1e12, 'T'}, {1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}}) {
    if (value >= size) return fmt::format("{:.2f} {}", value / size, letter);
  }
  return fmt::format("{:.0f}  ", value);
}

double mean_clip_factor(const ExchangeCounts& counts) {
  const auto completed = static_cast<double>(std::max<std::uint64_t>(counts.completed, 1));
  return 1 - counts.clipped / completed;
}

}  // namespace

std::string_view method_name(optim::OuterMethod method) {
  const auto found =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [method](const Choice<optim::OuterMethod>& it) { return it.value == method; });
  STARLING_ASSERT(found != kMethods.end());
  return found->name;
}

nlohmann::json simulation_begin_json(const PeerConfig& config, std::size_t parameters) {
  PeerConfig told = config;
  told.simulate.threads = 0;  // no result depends on these two
  told.simulate.out.clear();
  return {{"event", "begin"},
          {"run", config.run.name},
          {"method", method_name(config.outer.rule.method)},
          {"peers", config.simulate.peers},
          {"parameters", parameters},
          {"seed", config.run.seed},
          {"config", dump(told)}};
}

nlohmann::json simulated_json(const SimulatedMoment& moment) {
  nlohmann::json line{{"event", "loss"},
                      {"seconds", moment.seconds},
                      {"tokens", moment.tokens},
                      {"bytes", moment.bytes},
                      {"weight_bytes", moment.weight_bytes},
                      {"weights_away", moment.weights_away},
                      {"peers", moment.peers},
                      {"loss", number(moment.loss)},
                      {"disagreement", number(moment.disagreement)},
                      {"single", nlohmann::json::array()}};
  for (const SimulatedLoss& single : moment.single) {
    line["single"].push_back({{"peer", single.peer},
                              {"steps", single.steps},
                              {"tokens", single.tokens},
                              {"bytes", single.bytes},
                              {"loss", number(single.loss)}});
  }
  return line;
}

nlohmann::json simulated_json(const SimulatedLife& life) {
  return {{"event", "peer"},
          {"peer", life.peer},
          {"speed", life.speed},
          {"seconds", life.seconds},
          {"goodput", life.goodput},
          {"idle_seconds", life.idle_seconds},
          {"steps", life.steps},
          {"tokens", life.tokens},
          {"bytes_out", life.traffic.bytes_out},
          {"bytes_in", life.traffic.bytes_in},
          {"weights_away", life.traffic.away_out},
          {"messages", life.traffic.messages},
          {"lost", life.traffic.lost},
          {"exchanges", life.exchanges.completed},
          {"clip_factor", mean_clip_factor(life.exchanges)},
          {"blocks", life.exchanges.blocks},
          {"blocks_skipped", life.exchanges.blocks_skipped},
          {"begun", life.exchanges.begun},
          {"begun_seconds", life.exchanges.begun_seconds},
          {"declined", life.exchanges.declined},
          {"failed", life.exchanges.failed}};
}

nlohmann::json simulation_end_json(std::string_view why) {
  return {{"event", "end"}, {"why", std::string(why)}};
}

std::string simulated_header() {
  return fmt::format("{:>10} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9}\n", "seconds", "tokens", "bytes",
                     "peers", "mean", "best", "worst");
}

std::string simulated_line(const SimulatedMoment& moment) {
  std::string singles;
  if (!moment.single.empty()) {
    const auto [best, worst] =
        std::minmax_element(moment.single.begin(), moment.single.end(),
                            [](const SimulatedLoss& left, const SimulatedLoss& right) {
                              return left.loss < right.loss;
                            });
    singles = fmt::format(" {:9.4f} {:9.4f}", best->loss, worst->loss);
  }
  return fmt::format("{:10.1f} {:>9} {:>9} {:6} {:9.4f}{}\n", moment.seconds,
                     short_count(static_cast<double>(moment.tokens)),
                     short_count(static_cast<double>(moment.bytes)), moment.peers, moment.loss,
                     singles);
}

std::string simulated_table(std::span<const SimulatedLife> lives, const SimulatedMoment& last) {
  std::string text =
      fmt::format("{:>5} {:>6} {:>9} {:>7} {:>9} {:>8} {:>9} {:>9} {:>6} {:>9}\n", "peer", "speed",
                  "seconds", "steps", "goodput", "idle s", "sent", "received", "pairs", "loss");
  for (const SimulatedLife& life : lives) {
    const auto measured =
        std::find_if(last.single.begin(), last.single.end(),
                     [&life](const SimulatedLoss& one) { return one.peer == life.peer; });
    const bool known = measured != last.single.end();
    text += fmt::format("{:5} {:6.3g} {:9.1f} {:7} {:8.2f}% {:8.1f} {:>9} {:>9} {:6} {:>9}\n",
                        life.peer, life.speed, life.seconds, life.steps, 100 * life.goodput,
                        life.idle_seconds, short_count(static_cast<double>(life.traffic.bytes_out)),
                        short_count(static_cast<double>(life.traffic.bytes_in)),
                        life.exchanges.completed,
                        known ? fmt::format("{:.4f}", measured->loss) : std::string("-"));
  }
  return text;
}

}  // namespace starling::peer

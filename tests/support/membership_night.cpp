// membership_night: a long run of membership alone, and a table of what it cost. For scripts and
// for looking by hand; the bounds are asserted here too: the exit status tells. The last line is
// all of it as JSON.
//
//   membership_night --peers 10000 --minutes 60 --loss 0.01 --seed 1 [--view 1024] [--crashes 20]
//
// Large swarms are all cache misses: with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 in the environment
// it takes a quarter less time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/membership_swarm.h"

namespace {

using namespace starling;
using namespace starling::gossip;
using std::chrono::seconds;

struct Plan {
  std::uint32_t peers = 1000;
  double minutes = 10;
  double loss = 0.01;
  std::uint64_t seed = 1;
  std::uint32_t view = 1024;
  std::uint32_t crashes = 20;
};

bool parse(int count, char** words, Plan& plan);
Duration settling(const Plan& plan);
void report(MembershipSwarm& swarm, const Plan& plan, double minutes);
std::vector<std::uint32_t> crash_some(MembershipSwarm& swarm, const Plan& plan);
// Seconds: until somebody had buried the victim, on average and at most, and until the last had.
struct Detection {
  double mean = 0, slowest = 0, all = 0;
  std::size_t victims = 0;
};
Detection detection(MembershipSwarm& swarm, const Plan& plan,
                    const std::vector<std::uint32_t>& victims);
std::string traffic_json(const MembershipSwarm& swarm, const Plan& plan);

constexpr double kReportEvery = 10;    // virtual minutes
constexpr double kDetectionMost = 60;  // seconds until the first peer has buried a crashed one

}  // namespace

int main(int count, char** words) {
  Plan plan;
  if (!parse(count, words, plan)) {
    std::fprintf(stderr,
                 "usage: %s [--peers N] [--minutes M] [--loss P] [--seed S] [--view N] "
                 "[--crashes N]\n",
                 words[0]);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // it runs for hours: what is known is told
  MembershipOptions options;
  options.seed = plan.seed;
  options.peers = plan.peers;
  options.loss = plan.loss;
  options.config.peers_max = plan.view;
  options.joins_within = seconds(10 + plan.peers / 50);
  MembershipSwarm swarm(options);
  swarm.run_for(options.joins_within + settling(plan));
  std::printf("%u peers, view %u, loss %.3f, seed %llu\n", plan.peers, plan.view, plan.loss,
              static_cast<unsigned long long>(plan.seed));
  report(swarm, plan, to_seconds(swarm.now().time_since_epoch()) / 60);
  swarm.reset();
  for (double minutes = 0; minutes < plan.minutes;) {  // the last line is of the whole time
    const double span = std::min(kReportEvery, plan.minutes - minutes);
    swarm.run_for(from_seconds(span * 60));
    report(swarm, plan, minutes += span);
  }
  const std::uint64_t false_deaths = swarm.counts().false_deaths;
  const std::string traffic = traffic_json(swarm, plan);

  const Detection found = detection(swarm, plan, crash_some(swarm, plan));
  const bool good = false_deaths == 0 && found.slowest <= kDetectionMost;
  std::printf("%s\n", good ? "good" : "NOT GOOD");
  std::printf(
      "{%s, \"crashes\": %zu, \"buried_first_mean\": %.1f, \"buried_first_most\": %.1f, "
      "\"buried_last\": %.1f}\n",
      traffic.c_str(), found.victims, found.mean, found.slowest, found.all);
  return good ? 0 : 1;
}

namespace {

bool parse(int count, char** words, Plan& plan) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const double value = std::strtod(words[i + 1], nullptr);
    if (name == "--peers") {
      plan.peers = static_cast<std::uint32_t>(value);
    } else if (name == "--minutes") {
      plan.minutes = value;
    } else if (name == "--loss") {
      plan.loss = value;
    } else if (name == "--seed") {
      plan.seed = static_cast<std::uint64_t>(value);
    } else if (name == "--view") {
      plan.view = static_cast<std::uint32_t>(value);
    } else if (name == "--crashes") {
      plan.crashes = static_cast<std::uint32_t>(value);
    } else {
      return false;
    }
  }
  return count % 2 == 1 && plan.peers >= 8 && plan.view > 8;
}

// Until the names of all who came are old news: everybody tells each a dozen times, some forty a
// second.
Duration settling(const Plan& plan) {
  return seconds(60) + from_seconds(0.3 * std::min(plan.peers, plan.view));
}

void report(MembershipSwarm& swarm, const Plan& plan, double minutes) {
  const MembershipCounts& counts = swarm.counts();
  const double peer_seconds = plan.peers * minutes * 60;
  double size = 0, tokens = 0, lines = 0, rows = 0;
  const double step = std::max(1.0, plan.peers / 100.0);
  double looked = 0;
  for (double at = 0; at < plan.peers; at += step, ++looked) {
    const Core& core = swarm.core(static_cast<std::uint32_t>(at));
    size += core.stats().swarm_size;
    lines += static_cast<double>(core.stats().lines_open);
    tokens += core.swarm_tokens(swarm.now());
    rows += static_cast<double>(core.stats().peers_alive);
  }
  const auto known = swarm.known_by();
  double mean = 0, square = 0;
  for (const std::uint32_t by : known) {
    mean += by;
    square += double{1} * by * by;
  }
  mean /= plan.peers;
  const double spread = std::sqrt(std::max(0.0, square / plan.peers - mean * mean));
  std::printf("%6.1f min: %.0f B/s, %.2f messages/s, %.3f dials/s per peer; ", minutes,
              counts.bytes / peer_seconds, static_cast<double>(counts.messages) / peer_seconds,
              static_cast<double>(counts.dials) / peer_seconds);
  std::printf("suspicions of the living %llu, false deaths %llu\n",
              static_cast<unsigned long long>(counts.false_suspicions),
              static_cast<unsigned long long>(counts.false_deaths));
  std::printf(
      "            rows alive %.1f, lines %.1f, size estimate %.0f, tokens %.4g; known by "
      "%.1f +- %.1f, least %u, most %u\n",
      rows / looked, lines / looked, size / looked, tokens / looked, mean, spread,
      *std::min_element(known.begin(), known.end()), *std::max_element(known.begin(), known.end()));
}

std::vector<std::uint32_t> crash_some(MembershipSwarm& swarm, const Plan& plan) {
  Rng dice(plan.seed);
  std::vector<std::uint32_t> victims;
  while (victims.size() < std::min(plan.crashes, plan.peers / 8)) {
    const auto victim = static_cast<std::uint32_t>(dice.below(plan.peers));
    if (std::find(victims.begin(), victims.end(), victim) == victims.end()) {
      victims.push_back(victim);
    }
  }
  for (const std::uint32_t victim : victims) {
    swarm.crash(victim);
    swarm.run_for(seconds(1));
  }
  swarm.run_for(std::chrono::minutes(2));
  return victims;
}

Detection detection(MembershipSwarm& swarm, const Plan& plan,
                    const std::vector<std::uint32_t>& victims) {
  Detection found;
  found.victims = victims.size();
  std::uint32_t fewest = plan.peers;
  for (const std::uint32_t victim : victims) {
    const auto& notice = swarm.notice(victim);
    const double first = notice.observers == 0 ? 1e9 : to_seconds(notice.first - notice.crashed_at);
    found.slowest = std::max(found.slowest, first);
    found.mean += first / static_cast<double>(victims.size());
    found.all = std::max(found.all, to_seconds(notice.last - notice.crashed_at));
    fewest = std::min(fewest, notice.observers);
  }
  std::printf(
      "crashes: %zu, buried first after %.1f s on average, %.1f s at most; last observer "
      "after %.1f s; observers at least %u\n",
      victims.size(), found.mean, found.slowest, found.all, fewest);
  return found;
}

// Per second: of the mean peer, of the busiest, and by type of message.
std::string traffic_json(const MembershipSwarm& swarm, const Plan& plan) {
  const double length = plan.minutes * 60;
  MembershipTraffic most;
  double bytes_in = 0, messages_in = 0;
  for (std::uint32_t peer = 0; peer < plan.peers; ++peer) {
    const MembershipTraffic& one = swarm.traffic(peer);
    most.bytes_out = std::max(most.bytes_out, one.bytes_out);
    most.bytes_in = std::max(most.bytes_in, one.bytes_in);
    most.messages_out = std::max(most.messages_out, one.messages_out);
    most.messages_in = std::max(most.messages_in, one.messages_in);
    bytes_in += one.bytes_in;
    messages_in += static_cast<double>(one.messages_in);
  }
  const MembershipCounts& counts = swarm.counts();
  const double all = plan.peers * length;
  std::string json;
  const auto put = [&json](const std::string& name, double value) {
    char text[96];
    std::snprintf(text, sizeof text, "%s\"%s\": %.10g", json.empty() ? "" : ", ", name.c_str(),
                  value);
    json += text;
  };
  put("peers", plan.peers);
  put("seed", static_cast<double>(plan.seed));
  put("view", plan.view);
  put("loss", plan.loss);
  put("minutes", plan.minutes);
  put("bytes_out", counts.bytes / all);
  put("bytes_in", bytes_in / all);
  put("messages_out", static_cast<double>(counts.messages) / all);
  put("messages_in", messages_in / all);
  put("most_bytes_out", most.bytes_out / length);
  put("most_bytes_in", most.bytes_in / length);
  put("most_messages_out", static_cast<double>(most.messages_out) / length);
  put("most_messages_in", static_cast<double>(most.messages_in) / length);
  put("dials", static_cast<double>(counts.dials) / all);
  put("false_suspicions", static_cast<double>(counts.false_suspicions));
  put("false_deaths", static_cast<double>(counts.false_deaths));
  for (std::size_t type = 0; type < counts.bytes_of.size(); ++type) {
    const double bytes = counts.bytes_of[type] / all;
    if (bytes > 0) put("bytes_" + std::string(message_name(type)), bytes);
  }
  return json;
}

}  // namespace

#include "peer/machine/processors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/parse_number.h"
#include "base/this_thread.h"

namespace starling::peer {

namespace {

constexpr std::size_t kProcessorsMax = 1 << 16;
constexpr std::size_t kListBytesMax = 4096;

// The allowed processors of each core, cores in the order of their first.
std::vector<std::vector<int>> cores_of(const ProcessorFacts& facts) {
  std::vector<std::vector<int>> cores;
  std::vector<int> left = facts.allowed;
  for (std::size_t i = 0; i < facts.allowed.size(); ++i) {
    std::vector<int> core = {facts.allowed[i]};
    if (i < facts.siblings.size()) {
      core.insert(core.end(), facts.siblings[i].begin(), facts.siblings[i].end());
    }
    std::vector<int> found;
    for (const int processor : core) {
      const auto at = std::find(left.begin(), left.end(), processor);
      if (at == left.end()) continue;  // of a core that was there before, or not ours
      found.push_back(processor);
      left.erase(at);
    }
    if (!found.empty()) cores.push_back(std::move(found));
  }
  return cores;
}

// The first of each core, then the second of each, and so on.
std::vector<int> cores_first(const ProcessorFacts& facts) {
  const std::vector<std::vector<int>> cores = cores_of(facts);
  std::vector<int> order;
  for (std::size_t thread = 0; order.size() < facts.allowed.size(); ++thread) {
    for (const std::vector<int>& core : cores) {
      if (thread < core.size()) order.push_back(core[thread]);
    }
  }
  return order;
}

std::optional<int> number(std::string_view text) {
  const auto value = parse_number<int>(text);
  if (!value || *value < 0 || *value >= static_cast<int>(kProcessorsMax)) return std::nullopt;
  return value;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kListBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<int> parse_processors(std::string_view text) {
  std::vector<int> processors;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const std::size_t dash = std::min(item.find('-'), item.size());
    const std::optional<int> first = number(item.substr(0, dash));
    const std::optional<int> last = dash < item.size() ? number(item.substr(dash + 1)) : first;
    if (!first || !last || *first > *last) return {};
    for (int i = *first; i <= *last; ++i) processors.push_back(i);
    if (processors.size() > kProcessorsMax) return {};
    if (comma == text.size()) return processors;
    text.remove_prefix(comma + 1);
  }
}

std::optional<double> parse_quota(std::string_view text) {
  std::uint64_t used = 0, period = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, used);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc() || used == 0 || period == 0) return std::nullopt;
  return static_cast<double>(used) / static_cast<double>(period);
}

ProcessorFacts processor_facts() {
  ProcessorFacts facts{.allowed = allowed_processors(),
                       .siblings = {},
                       .taken = {},
                       .quota = parse_quota(first_line("/sys/fs/cgroup/cpu.max"))};
  for (const int processor : facts.allowed) {
    facts.siblings.push_back(parse_processors(first_line(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor))));
  }
  return facts;
}

int usable_processors(const ProcessorFacts& facts) {
  const int allowed = std::max(static_cast<int>(facts.allowed.size()), 1);
  if (!facts.quota || *facts.quota >= allowed) return allowed;
  return std::max(static_cast<int>(std::ceil(*facts.quota)), 1);
}

int default_threads(const ProcessorFacts& facts) {
  const int processors = usable_processors(facts);
  return processors > 2 ? processors - 1 : processors;
}

Result<ProcessorPlan> plan_processors(const ProcessorFacts& facts, const TeamWish& wish) {
  ProcessorPlan plan;
  plan.threads = wish.threads > 0 ? static_cast<int>(wish.threads) : default_threads(facts);
  if (!wish.pin || facts.allowed.empty()) return plan;
  std::vector<int> order = cores_first(facts);
  if (static_cast<std::size_t>(plan.threads) > order.size()) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("device.threads = {0}, but this process may use {1} processor{2}, and "
                             "more threads than that only slow it: set it to {1} at most, or "
                             "device.pin = false",
                             plan.threads, order.size(), order.size() == 1 ? "" : "s"));
  }
  std::erase_if(order, [&facts](int processor) {
    return std::find(facts.taken.begin(), facts.taken.end(), processor) != facts.taken.end();
  });
  const int free = static_cast<int>(order.size());
  if (wish.threads == 0 && free > 0) plan.threads = std::min(plan.threads, free);
  if (plan.threads > free) return plan;
  plan.team.assign(order.begin(), order.begin() + plan.threads);
  plan.rest.assign(order.begin() + plan.threads, order.end());
  return plan;
}

std::vector<std::vector<int>> divide_processors(const ProcessorFacts& facts, std::size_t parts) {
  std::vector<int> order;
  for (const std::vector<int>& core : cores_of(facts)) {
    order.insert(order.end(), core.begin(), core.end());
  }
  if (parts == 0 || parts > order.size()) return {};
  std::vector<std::vector<int>> ranges(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    const auto border = [&](std::size_t part) {
      return order.begin() + static_cast<std::ptrdiff_t>(part * order.size() / parts);
    };
    ranges[i].assign(border(i), border(i + 1));
  }
  return ranges;
}

}  // namespace starling::peer

#include "peer/machine/busy_processors.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/parse_number.h"
#include "peer/io/clock.h"
#include "peer/machine/free_memory.h"

namespace starling::peer {

namespace {

// Of a processor's line, in its order; guests count as user and nice already (proc(5)).
constexpr std::size_t kUser = 0, kIdle = 3, kIoWait = 4, kSteal = 7;

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::optional<double> busy_ticks(std::string_view line) {
  double ticks = 0;
  for (std::size_t field = kUser; field <= kSteal; ++field) {
    const auto value = parse_number<std::uint64_t>(next_word(line));
    if (!value) return std::nullopt;
    if (field != kIdle && field != kIoWait) ticks += static_cast<double>(*value);
  }
  return ticks;
}

double own_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

std::optional<double> busy_seconds(std::string_view text, std::span<const int> processors,
                                   double ticks_per_second) {
  if (processors.empty()) return std::nullopt;
  double ticks = 0;
  for (const int processor : processors) {
    const std::string name = fmt::format("\ncpu{} ", processor);
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(at + name.size());
    const auto busy = busy_ticks(rest.substr(0, rest.find('\n')));
    if (!busy) return std::nullopt;
    ticks += *busy;
  }
  return ticks / ticks_per_second;
}

BusyProcessors::BusyProcessors(std::vector<int> processors)
    : processors_(std::move(processors)), begin_(now()), others_before_(others()) {}

std::optional<double> BusyProcessors::others() const {
  const auto all = busy_seconds(system_text("/proc/stat"), processors_,
                                static_cast<double>(::sysconf(_SC_CLK_TCK)));
  if (!all) return std::nullopt;
  return *all - own_seconds();
}

std::optional<double> BusyProcessors::used_by_others() const {
  const auto after = others();
  const double seconds = seconds_since(begin_);
  if (!others_before_ || !after || !(seconds > 0)) return std::nullopt;
  return std::max(0.0, (*after - *others_before_) / seconds);
}

}  // namespace starling::peer

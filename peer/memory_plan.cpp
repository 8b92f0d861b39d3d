#include "peer/memory_plan.h"

#include <fmt/format.h>

#include <utility>

namespace starling::peer {

void MemoryPlan::add(std::string name, std::size_t bytes) {
  parts.push_back({std::move(name), bytes});
}

std::size_t MemoryPlan::total() const noexcept {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::string MemoryPlan::describe() const {
  std::string text;
  for (const Part& part : parts)
    text += fmt::format("{} {}, ", part.name, in_mebibytes(part.bytes));
  return text + in_mebibytes(total()) + " in all";
}

std::string in_mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace starling::peer

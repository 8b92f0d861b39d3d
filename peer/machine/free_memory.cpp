#include "peer/machine/free_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace starling::peer {

namespace {

constexpr std::size_t kSystemFileMax = 64 * 1024;

std::optional<std::uint64_t> container_room() {
  constexpr const char* kFolder = "/sys/fs/cgroup/";
  const auto value = [&](const char* name, std::string_view key) {
    return number_after(system_text((std::string(kFolder) + name).c_str()), key);
  };
  const auto limit = value("memory.max", "");  // "max": none
  const auto used = value("memory.current", "");
  if (!limit || !used) return std::nullopt;
  // Files that were read are counted, and given up for the asking.
  const std::uint64_t cache = value("memory.stat", "inactive_file").value_or(0) +
                              value("memory.stat", "\nactive_file").value_or(0);
  return *limit - std::min(*limit, *used - std::min(cache, *used));
}

}  // namespace

std::string system_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kSystemFileMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_not_of(": \t", at + key.size());
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> memory_available() {
  const auto kibibytes = number_after(system_text("/proc/meminfo"), "MemAvailable");
  const auto here = container_room();
  if (!kibibytes) return here;
  return std::min(*kibibytes * 1024, here.value_or(*kibibytes * 1024));
}

std::uint64_t peak_memory() {
  return number_after(system_text("/proc/self/status"), "VmHWM").value_or(0) * 1024;
}

}  // namespace starling::peer

// What tests of files share: names inside a ScratchFolder, whole files in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "tests/peer/scratch_folder.h"

namespace starling {

inline std::filesystem::path operator/(const ScratchFolder& folder, std::string_view name) {
  return folder.path() / name;
}

namespace testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  STARLING_ASSERT(file.good());
}

inline std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A shard as llm.c writes it: 256 numbers of 32 bits, then the tokens as `Stored`.
template <class Stored>
std::string llm_c_shard(std::int32_t magic, std::int32_t version,
                        const std::vector<Stored>& tokens) {
  std::vector<std::int32_t> head(256);
  head[0] = magic;
  head[1] = version;
  head[2] = static_cast<std::int32_t>(tokens.size());
  std::string file(reinterpret_cast<const char*>(head.data()), head.size() * sizeof(head[0]));
  return file.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Stored));
}

}  // namespace testing

}  // namespace starling

// That no peer counts twice, where checkpoints of several peers are taken together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace starling::peer {

struct PeerFile {
  std::filesystem::path path{};  // or the folder, as it was named
  std::uint64_t peer = 0;        // whose it is; 0: of nobody, as an average or an import
};

// kInvalidConfig, naming two that are of one peer.
Status check_distinct(std::span<const PeerFile> files);

}  // namespace starling::peer

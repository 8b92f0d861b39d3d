// What `starling plan` tells of a peer's configuration: each part of its memory, for the ways to
// cut its batch, before anything is allocated, and on a CPU whether a start here would find room
// now and how it would cut it. Where device.name is "auto", it is that of a GPU if this machine has
// one; where it names a GPU, there need be none. Blocking; for the command line.
#pragma once

#include <filesystem>
#include <ostream>
#include <span>
#include <string>

#include "base/result.h"

namespace starling::peer {

Status tell_memory(const std::filesystem::path& config, std::span<const std::string> overrides,
                   bool json, std::ostream& out);

}  // namespace starling::peer

// Finds and loads the CUDA module. It is looked for beside the executable (a build), in
// ../lib/starling (an installation), and last by the system's loader, by name alone. The first file
// that is there decides: one that cannot be used is an error and not passed over.
//
// A module stays loaded until the process ends. Errors: kUnavailable where there is none or its
// libraries are missing, kIncompatible for one of another build; both say what to do.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/module.h"

namespace starling::cuda {

std::vector<std::filesystem::path> module_places(const std::filesystem::path& executable);

// A path without a folder is left to the system's loader.
Result<const Module*> load_module(std::span<const std::filesystem::path> places);

}  // namespace starling::cuda

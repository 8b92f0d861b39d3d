// Finds and loads the CUDA module. It is looked for beside the executable (a build), in
// ../lib/starling (an installation), and last by the system's loader, by name alone. The first file
// that is there decides: one that cannot be used is an error and not passed over.
//
// A module stays loaded until the process ends, but for one that can reach no GPU: its libraries
// take some 150 MiB of a peer that computes on processors. Errors: kUnavailable where there is
// none, its libraries are missing or it reaches no GPU, kIncompatible for one of another build; all
// say what to do.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/module.h"

namespace starling::cuda {

std::vector<std::filesystem::path> module_places(const std::filesystem::path& executable);

struct LoadedModule {
  const Module* module = nullptr;
  void* library = nullptr;  // the loader's handle
};

// A path without a folder is left to the system's loader.
Result<LoadedModule> load_module(std::span<const std::filesystem::path> places);
// The same, and lets it go again if its driver shows no GPU; its error says why.
Result<const Module*> load_useful_module(std::span<const std::filesystem::path> places);

}  // namespace starling::cuda

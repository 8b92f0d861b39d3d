#include "cuda/module_loader.h"

#include <dlfcn.h>

#include <string>
#include <string_view>

namespace starling::cuda {

namespace {

constexpr const char* kModuleFile = "libstarling_cuda.so";

std::string last_problem() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown" : text;
}

Error unusable(const std::filesystem::path& path, const std::string& problem) {
  return Error(ErrorCode::kUnavailable,
               "the CUDA module " + path.string() + " cannot be loaded: " + problem +
                   "; install the CUDA libraries that it names, or set device.name = \"cpu\"");
}

Result<LoadedModule> ask(void* library, const std::filesystem::path& path) {
  auto* identity = reinterpret_cast<IdentityFunction*>(::dlsym(library, kIdentitySymbol));
  auto* module = reinterpret_cast<ModuleFunction*>(::dlsym(library, kModuleSymbol));
  std::string problem = path.string() + " is no CUDA module of Starling";
  if (identity != nullptr && module != nullptr) {
    const std::string_view theirs = identity();
    if (theirs == kModuleIdentity) return LoadedModule{module(), library};
    problem = "the CUDA module " + path.string() + " is of another build (" + std::string(theirs) +
              ", this program: " + kModuleIdentity +
              "): install program and module of the same build";
  }
  ::dlclose(library);
  return Error(ErrorCode::kIncompatible, std::move(problem));
}

}  // namespace

std::vector<std::filesystem::path> module_places(const std::filesystem::path& executable) {
  const std::filesystem::path folder = executable.parent_path();
  return {folder / kModuleFile, folder.parent_path() / "lib" / "starling" / kModuleFile,
          kModuleFile};
}

Result<LoadedModule> load_module(std::span<const std::filesystem::path> places) {
  std::string searched;
  for (const std::filesystem::path& path : places) {
    const bool has_folder = path.has_parent_path();
    searched += (searched.empty() ? "" : ", ") +
                (has_folder ? path.parent_path().string() : "the loader's path");
    std::error_code ignored;
    if (has_folder && !std::filesystem::exists(path, ignored)) continue;
    // Lazily: what a machine's driver lacks must not keep the module from saying so.
    void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) return ask(library, path);
    const std::string problem = last_problem();
    // Only the loader knows whether the module is nowhere or what it needs is.
    if (has_folder || !problem.starts_with(kModuleFile)) return unusable(path, problem);
  }
  return Error(ErrorCode::kUnavailable,
               std::string("no CUDA module: ") + kModuleFile + " is not in " + searched +
                   "; install a build that has it, or set device.name = \"cpu\"");
}

Result<const Module*> load_useful_module(std::span<const std::filesystem::path> places) {
  auto loaded = load_module(places);
  if (!loaded.ok()) return std::move(loaded).error();
  const auto gpus = loaded.value().module->count_gpus();
  if (gpus.ok()) return loaded.value().module;
  Error why(gpus.error().code(), gpus.error().message());  // with nothing of the module in it
  ::dlclose(loaded.value().library);
  return why;
}

}  // namespace starling::cuda

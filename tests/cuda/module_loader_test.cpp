#include "cuda/module_loader.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "cuda/backend.h"

namespace starling::cuda {

namespace {

namespace fs = std::filesystem;

std::string refusal(const std::vector<fs::path>& places, ErrorCode code) {
  auto module = load_module(places);
  REQUIRE(!module.ok());
  CHECK(module.error().code() == code);
  return module.error().message();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool is_loaded(const char* file) {
  void* library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

}  // namespace

TEST_CASE("a module is looked for beside the program, then in the library folder, then by name") {
  const auto places = module_places("/opt/starling/bin/starling");
  REQUIRE(places.size() == 3);
  CHECK(places[0] == "/opt/starling/bin/libstarling_cuda.so");
  CHECK(places[1] == "/opt/starling/lib/starling/libstarling_cuda.so");
  CHECK(places[2] == "libstarling_cuda.so");
}

TEST_CASE("the first place that has a module decides, and it answers") {
  auto module = load_module(std::vector<fs::path>{"/nowhere/libstarling_cuda.so", STARLING_FAKE});
  REQUIRE(module.ok());
  auto device = module.value().module->make_device(0);
  REQUIRE(!device.ok());
  CHECK(has(device.error().message(), "too old: it is of CUDA 12.2"));
  ::dlclose(module.value().library);
}

TEST_CASE("a module that reaches no GPU is let go, and what it said stays") {
  const std::vector<fs::path> places{STARLING_FAKE};
  auto loaded = load_module(places);  // stays
  REQUIRE(loaded.ok());
  CHECK(is_loaded(STARLING_FAKE));
  ::dlclose(loaded.value().library);
  CHECK_FALSE(is_loaded(STARLING_FAKE));
  auto module = load_useful_module(places);
  REQUIRE(!module.ok());
  CHECK_FALSE(is_loaded(STARLING_FAKE));
  CHECK(module.error().code() == ErrorCode::kUnavailable);
  CHECK(has(module.error().message(), "too old: it is of CUDA 12.2"));
}

TEST_CASE("a module that is nowhere is missed in every place by name") {
  const std::string text =
      refusal({"/nowhere/libstarling_cuda.so", "libstarling_cuda.so"}, ErrorCode::kUnavailable);
  CHECK(has(text, "/nowhere, the loader's path"));
  CHECK(has(text, "device.name = \"cpu\""));
}

TEST_CASE("a module of another build is refused, and both builds are named") {
  const std::string text =
      refusal({STARLING_FAKE_OF_ANOTHER_BUILD, STARLING_FAKE}, ErrorCode::kIncompatible);
  CHECK_FALSE(is_loaded(STARLING_FAKE_OF_ANOTHER_BUILD));
  CHECK(has(text, "of another build (0.0.9 of somebody"));
  CHECK(has(text, std::string("this program: ") + kModuleIdentity));
}

TEST_CASE("a file that is no module is refused by name, whatever it is") {
  const fs::path garbage =
      fs::temp_directory_path() / ("starling-" + std::to_string(::getpid()) + ".so");
  std::ofstream(garbage) << "no library";
  const std::string text = refusal({garbage, STARLING_FAKE}, ErrorCode::kUnavailable);
  CHECK(has(text, garbage.string() + " cannot be loaded"));
  fs::remove(garbage);
  CHECK(has(refusal({STARLING_NO_MODULE}, ErrorCode::kIncompatible), "is no CUDA module"));
}

TEST_CASE("a build of the module loads here, and says what this machine lacks") {
#if defined(STARLING_CUDA_MODULE)
  auto module = load_module(std::vector<fs::path>{STARLING_CUDA_MODULE});
  if (!module.ok()) FAIL(module.error().message());
  auto facts = module.value().module->gpu_facts(0);
  if (facts.ok()) {
    CHECK(facts.value().major >= 8);
    CHECK(facts.value().memory_free > 0);
  } else {
    MESSAGE("no GPU: " << facts.error().message());
    CHECK(facts.error().code() == ErrorCode::kUnavailable);
    auto device = module.value().module->make_device(0);
    REQUIRE(!device.ok());
    CHECK(device.error().message() == facts.error().message());
  }
#else
  MESSAGE("skipped: this build has no CUDA module");
#endif
}

}  // namespace starling::cuda

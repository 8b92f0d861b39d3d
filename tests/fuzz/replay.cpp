// replay: runs a fuzz target over the files of its corpus and over mutations of each, drawn from a
// fixed seed: what the tests do with the targets where there is no libFuzzer. A finding aborts.
//
//   replay_fuzz_wire CORPUS_FOLDER MUTATIONS_OF_EACH
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using starling::Rng;
using Input = std::vector<std::uint8_t>;

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void mutate(Input& input, const std::vector<Input>& corpus, Rng& rng) {
  const auto place = [&] { return static_cast<std::ptrdiff_t>(rng.below(input.size() + 1)); };
  const auto byte = [&] { return static_cast<std::uint8_t>(rng.below(256)); };
  switch (rng.below(6)) {
    case 0:
      if (!input.empty())
        input[rng.below(input.size())] ^= static_cast<std::uint8_t>(1U << rng.below(8));
      return;
    case 1:
      if (!input.empty()) input[rng.below(input.size())] = byte();
      return;
    case 2: input.insert(input.begin() + place(), 1 + rng.below(16), byte()); return;
    case 3: input.resize(static_cast<std::size_t>(place())); return;
    case 4: {  // a number at its ends
      const std::uint8_t value = rng.chance(0.5) ? 0xff : 0;
      const auto first = static_cast<std::size_t>(place());
      const std::size_t last = std::min(input.size(), first + (std::size_t{1} << rng.below(4)));
      std::fill(input.begin() + static_cast<std::ptrdiff_t>(std::min(first, last)),
                input.begin() + static_cast<std::ptrdiff_t>(last), value);
      return;
    }
    default: {  // the end of another
      const Input& other = corpus[rng.below(corpus.size())];
      input.resize(static_cast<std::size_t>(place()));
      const auto from = static_cast<std::ptrdiff_t>(rng.below(other.size() + 1));
      input.insert(input.end(), other.begin() + from, other.end());
      return;
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER MUTATIONS_OF_EACH\n", words[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(words[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) corpus.push_back(read(file));
  if (corpus.empty()) {
    std::fprintf(stderr, "%s is empty\n", words[1]);
    return 1;
  }
  const long mutations = std::strtol(words[2], nullptr, 10);
  std::uint64_t runs = 0;
  Rng rng(1);
  for (const Input& input : corpus) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
    for (long i = 0; i < mutations; ++i) {
      Input changed = input;
      for (std::uint64_t changes = 1 + rng.below(4); changes > 0; --changes) {
        mutate(changed, corpus, rng);
      }
      LLVMFuzzerTestOneInput(changed.data(), changed.size());
      ++runs;
    }
  }
  std::printf("%zu files, %llu runs, no finding\n", corpus.size(),
              static_cast<unsigned long long>(runs));
  return 0;
}

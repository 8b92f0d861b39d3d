// Small checkpoints for tests: two sections whose content follows from the step.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "peer/files/checkpoint.h"

namespace starling::testing {

inline constexpr peer::CheckpointDigests kDigests{.run = 11, .model = 22, .layout = 33};

struct SampleCheckpoint {
  explicit SampleCheckpoint(std::uint64_t step, std::size_t values = 100)
      : numbers(values), odd(13, std::byte{static_cast<unsigned char>(step)}) {
    Rng rng(step);
    for (float& number : numbers) number = rng.normal();
    header.sequence = step;
    header.step = step;
    header.tokens = 10 * step;
    header.peer = 77;
    header.incarnation = 3;
    header.digests = kDigests;
    header.title = "run test, a small model";
  }
  SampleCheckpoint(const SampleCheckpoint&) = delete;
  SampleCheckpoint& operator=(const SampleCheckpoint&) = delete;

  std::vector<peer::Section> sections() const {
    return {{"weights", std::as_bytes(std::span(numbers))}, {"odd", odd}, {"empty", {}}};
  }
  std::vector<std::byte> encoded(std::size_t piece = 1000) const {
    peer::CheckpointEncoder encoder(header, sections());
    std::vector<std::byte> bytes;
    while (true) {
      const auto part = encoder.next(piece).value();
      if (part.empty()) return bytes;
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }

  peer::CheckpointHeader header;
  std::vector<float> numbers;
  std::vector<std::byte> odd;
};

// Do the sections hold what a sample of that step held?
inline bool holds_sample(const peer::CheckpointFile& file) {
  const SampleCheckpoint expected(file.header().step,
                                  file.section_bytes("weights").value_or(0) / sizeof(float));
  std::vector<float> numbers(expected.numbers.size());
  std::vector<std::byte> odd(expected.odd.size());
  const bool read = file.read("weights", std::as_writable_bytes(std::span(numbers))).ok() &&
                    file.read("odd", std::span(odd)).ok();
  return read && numbers == expected.numbers && odd == expected.odd;
}

}  // namespace starling::testing

// MemoryPlan: what a peer will hold, part by part, before any of it is allocated. Everything is
// fixed by the configuration; nothing grows while it trains.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace starling::peer {

struct MemoryPlan {
  struct Part {
    std::string name;
    std::size_t bytes = 0;
  };
  std::vector<Part> parts;

  void add(std::string name, std::size_t bytes);
  std::size_t total() const noexcept;
  // One line: "parameters 3.2 MiB, gradients 3.2 MiB, ...; 40 MiB in all".
  std::string describe() const;
};

std::string in_mebibytes(std::size_t bytes);  // "3.2 MiB"

}  // namespace starling::peer

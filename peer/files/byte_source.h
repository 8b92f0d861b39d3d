// ByteSource: the bytes of a file from its beginning to its end, unpacked where its name ends in
// ".gz" (gzip, also of several members) or ".zst" (Zstandard, also of several frames). Memory does
// not grow with the file, whatever it unpacks to. Blocking; one thread.
//
// Errors name the file; one that is damaged or cut short is kCorrupt, found at the latest where it
// ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace starling::peer {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // How many bytes were put into `target`, which is not empty; 0 at the end only.
  virtual Result<std::size_t> read(std::span<char> target) = 0;
};

Result<std::unique_ptr<ByteSource>> open_bytes(const std::filesystem::path& path);

// What a whole file unpacks to. Reads all of it if it is packed.
Result<std::uint64_t> unpacked_bytes(const std::filesystem::path& path);

}  // namespace starling::peer

// SafeTensors: the file that Hugging Face's tools keep weights in (the "Format" section of the
// safetensors README).
//
//   8 bytes     length of the header, little-endian
//   header      JSON: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...,
//               "__metadata__": {"key": "text"}}, perhaps with spaces behind it
//   data        the tensors, which fill it without gap or overlap
//
// Reading takes the bytes as foreign: the header's length is bounded before anything is allocated,
// every offset, shape and type has to agree with the file's length, no name stands twice. Values
// are read as float in pieces of the caller's choosing, so memory does not grow with the file.
// Errors: kCorrupt with file, tensor and reason; kIncompatible for types that hold no weights.
// Blocking, one owner each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "peer/io/file_io.h"

namespace starling::peer {

inline constexpr std::uint64_t kSafeTensorsHeaderMax = std::uint64_t{16} << 20;

enum class FloatType : std::uint8_t { kF32, kBf16, kF16 };
std::string_view to_string(FloatType type);  // as the header says it: "F32"
std::size_t bytes_of(FloatType type);

struct SafeTensor {
  std::string dtype;  // as in the file; perhaps none that we read
  std::vector<std::int64_t> shape;
  std::uint64_t first = 0, end = 0;  // bytes of the data
  std::uint64_t elements() const;
};
using SafeTensorTable = std::map<std::string, SafeTensor>;  // by name

// The header on its own, for files that have `data_bytes` behind it.
Result<SafeTensorTable> parse_safetensors(std::string_view header, std::uint64_t data_bytes);

class SafeTensorsFile {
 public:
  static Result<SafeTensorsFile> open(const std::filesystem::path& path);

  const SafeTensorTable& tensors() const noexcept { return tensors_; }
  // Elements [first, first + target.size()) of a tensor of this file.
  Status read(const SafeTensor& tensor, std::uint64_t first, std::span<float> target) const;

 private:
  SafeTensorsFile(std::filesystem::path path, FileHandle file, std::uint64_t data_at,
                  SafeTensorTable tensors)
      : path_(std::move(path)),
        file_(std::move(file)),
        data_at_(data_at),
        tensors_(std::move(tensors)) {}
  std::filesystem::path path_;
  FileHandle file_;
  std::uint64_t data_at_;
  SafeTensorTable tensors_;
};

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Writes one file: the header at once, then the values of all tensors, one after the other.
class SafeTensorsWriter {
 public:
  static Result<SafeTensorsWriter> create(const std::filesystem::path& path, FloatType type,
                                          std::span<const NamedShape> tensors,
                                          const std::map<std::string, std::string>& metadata);
  Status append(std::span<const float> values);
  // Every value must have come. Makes the file durable.
  Status finish();

 private:
  SafeTensorsWriter(std::filesystem::path path, FileHandle file, FloatType type,
                    std::uint64_t elements)
      : path_(std::move(path)), file_(std::move(file)), type_(type), missing_(elements) {}
  std::filesystem::path path_;
  FileHandle file_;
  FloatType type_;
  std::uint64_t missing_;           // elements to come
  std::vector<std::byte> encoded_;  // scratch of append()
};

}  // namespace starling::peer

#include "peer/files/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/assert.h"
#include "base/bf16.h"
#include "peer/files/fp16.h"

namespace starling::peer {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kPieceElements = std::size_t{1} << 18;
constexpr std::string_view kMetadata = "__metadata__";

// Every type of the format that fills whole bytes.
struct TypeSize {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<TypeSize, 16> kTypeSizes{{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"F8_E5M2", 1},
                                               {"F8_E4M3", 1},
                                               {"F8_E8M0", 1},
                                               {"I16", 2},
                                               {"U16", 2},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"I32", 4},
                                               {"U32", 4},
                                               {"F32", 4},
                                               {"F64", 8},
                                               {"I64", 8},
                                               {"U64", 8}}};

Error corrupt_tensors(std::string message) {
  return Error(ErrorCode::kCorrupt, std::move(message));
}

std::optional<FloatType> float_type(std::string_view name) {
  for (const FloatType type : {FloatType::kF32, FloatType::kBf16, FloatType::kF16}) {
    if (to_string(type) == name) return type;
  }
  return std::nullopt;
}

// A JSON object whose names are all different: the reference takes the last of two, others the
// first, and a file that means two things to two readers is refused.
std::optional<json> parse_object(std::string_view text) {
  std::vector<std::set<std::string>> names;
  bool twice = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) {
      names.resize(std::max(names.size(), level + 2));
      names[level + 1].clear();
    }
    if (event == json::parse_event_t::key) {
      twice = twice || !names[level].insert(parsed.get<std::string>()).second;
    }
    return true;
  };
  json object = json::parse(text, watch, false);
  if (twice || !object.is_object()) return std::nullopt;
  return object;
}

std::optional<std::uint64_t> product(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) {
      return std::nullopt;
    }
  }
  return elements;
}

bool is_count(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
}

Result<SafeTensor> parse_tensor(const std::string& name, const json& entry) {
  const auto wrong = [&name](std::string_view what) {
    return corrupt_tensors(fmt::format("tensor \"{}\": {}", name, what));
  };
  if (!entry.is_object()) return wrong("its entry is no object");
  const auto dtype = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype == entry.end() || shape == entry.end() || offsets == entry.end()) {
    return wrong("dtype, shape or data_offsets is missing");
  }
  if (!dtype->is_string()) return wrong("its dtype is no text");
  if (!shape->is_array() || !std::all_of(shape->begin(), shape->end(), is_count)) {
    return wrong("its shape is no list of sizes");
  }
  if (!offsets->is_array() || offsets->size() != 2 || !is_count(offsets->at(0)) ||
      !is_count(offsets->at(1))) {
    return wrong("its data_offsets are not two places in the data");
  }
  SafeTensor tensor{.dtype = dtype->get<std::string>(),
                    .shape = shape->get<std::vector<std::int64_t>>(),
                    .first = offsets->at(0).get<std::uint64_t>(),
                    .end = offsets->at(1).get<std::uint64_t>()};
  const auto size = std::find_if(kTypeSizes.begin(), kTypeSizes.end(),
                                 [&](const TypeSize& type) { return type.name == tensor.dtype; });
  if (size == kTypeSizes.end()) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("tensor \"{}\" has the unknown type \"{}\"", name, tensor.dtype));
  }
  const auto elements = product(tensor.shape);
  std::uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, size->bytes, &bytes) ||
      tensor.end < tensor.first || tensor.end - tensor.first != bytes) {
    return wrong("its shape and its data_offsets disagree");
  }
  return tensor;
}

// In the order of their places the tensors fill the data exactly.
Status check_places(const SafeTensorTable& tensors, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string, SafeTensor> const*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.first, a->second.end) < std::pair(b->second.first, b->second.end);
  });
  std::uint64_t at = 0;
  for (const auto* tensor : order) {
    if (tensor->second.first != at) {
      return corrupt_tensors(
          fmt::format("tensor \"{}\" begins at byte {} of the data, where {} was due: "
                      "tensors overlap or leave a gap",
                      tensor->first, tensor->second.first, at));
    }
    at = tensor->second.end;
  }
  if (at != data_bytes) {
    return corrupt_tensors(fmt::format("its tensors need {} bytes of data, but {} are there{}", at,
                                       data_bytes, at > data_bytes ? ": the file is cut off" : ""));
  }
  return ok_status();
}

void decode(FloatType type, std::span<const std::byte> source, std::span<float> target) {
  if (type == FloatType::kF32) {
    std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, source.data() + 2 * i, 2);
    target[i] = type == FloatType::kBf16 ? to_float(bf16{bits}) : to_float(fp16{bits});
  }
}

void encode(FloatType type, std::span<const float> source, std::span<std::byte> target) {
  if (type == FloatType::kF32) {
    std::memcpy(target.data(), source.data(), target.size());
    return;
  }
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::uint16_t bits =
        type == FloatType::kBf16 ? to_bf16(source[i]).bits : to_fp16(source[i]).bits;
    std::memcpy(target.data() + 2 * i, &bits, 2);
  }
}

}  // namespace

std::string_view to_string(FloatType type) {
  switch (type) {
    case FloatType::kF32: return "F32";
    case FloatType::kBf16: return "BF16";
    case FloatType::kF16: return "F16";
  }
  return "";
}

std::size_t bytes_of(FloatType type) { return type == FloatType::kF32 ? 4 : 2; }

std::uint64_t SafeTensor::elements() const { return product(shape).value_or(0); }

Result<SafeTensorTable> parse_safetensors(std::string_view header, std::uint64_t data_bytes) {
  const auto object = parse_object(header);
  if (!object) return corrupt_tensors("its header is no JSON object with a name for each tensor");
  SafeTensorTable tensors;
  for (const auto& [name, entry] : object->items()) {
    if (name == kMetadata) continue;
    auto tensor = parse_tensor(name, entry);
    if (!tensor.ok()) return std::move(tensor).error();
    tensors.emplace(name, std::move(tensor).value());
  }
  if (Status places = check_places(tensors, data_bytes); !places.ok()) {
    return std::move(places).error();
  }
  return tensors;
}

Result<SafeTensorsFile> SafeTensorsFile::open(const std::filesystem::path& path) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path);
  if (!size.ok()) return std::move(size).error();
  const auto wrong = [&path](std::string_view what) {
    return corrupt_tensors(fmt::format("{} is no safetensors file: {}", path.string(), what));
  };
  if (size.value() < kLengthBytes) return wrong("it is shorter than the length of a header");
  std::uint64_t length = 0;
  auto read = read_at(file.value(), path, 0, std::as_writable_bytes(std::span(&length, 1)));
  if (!read.ok()) return std::move(read).error();
  if (length > size.value() - kLengthBytes) return wrong("its header is longer than the file");
  if (length > kSafeTensorsHeaderMax) {
    return wrong(fmt::format("its header of {} bytes is longer than the {} that are read", length,
                             kSafeTensorsHeaderMax));
  }
  std::string header(length, '\0');
  read = read_at(file.value(), path, kLengthBytes, std::as_writable_bytes(std::span(header)));
  if (!read.ok()) return std::move(read).error();
  const std::uint64_t data_at = kLengthBytes + length;
  auto tensors = parse_safetensors(header, size.value() - data_at);
  if (!tensors.ok()) return std::move(tensors).error().with_context(path.string());
  return SafeTensorsFile(path, std::move(file).value(), data_at, std::move(tensors).value());
}

Status SafeTensorsFile::read(const SafeTensor& tensor, std::uint64_t first,
                             std::span<float> target) const {
  STARLING_ASSERT(first <= tensor.elements());
  STARLING_ASSERT(target.size() <= tensor.elements() - first);
  const auto type = float_type(tensor.dtype);
  if (!type) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{}: weights of type {}; F32, BF16 and F16 are read", path_.string(),
                             tensor.dtype));
  }
  const std::size_t size = bytes_of(*type);
  std::vector<std::byte> bytes(std::min(kPieceElements, target.size()) * size);
  std::uint64_t at = data_at_ + tensor.first + first * size;
  while (!target.empty()) {
    const auto piece = target.first(std::min(kPieceElements, target.size()));
    const auto source = std::span(bytes).first(piece.size() * size);
    if (Status done = read_at(file_, path_, at, source); !done.ok()) return done;
    decode(*type, source, piece);
    at += source.size();
    target = target.subspan(piece.size());
  }
  return ok_status();
}

Result<SafeTensorsWriter> SafeTensorsWriter::create(
    const std::filesystem::path& path, FloatType type, std::span<const NamedShape> tensors,
    const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::uint64_t elements = 0;
  for (const NamedShape& tensor : tensors) {
    const std::uint64_t first = elements;
    elements += product(tensor.shape).value();
    header[tensor.name] = {{"dtype", to_string(type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {first * bytes_of(type), elements * bytes_of(type)}}};
  }
  // Metadata may come from names of files, which are any bytes.
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data is aligned
  STARLING_ASSERT(text.size() <= kSafeTensorsHeaderMax);
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.ok()) return std::move(file).error();
  const std::uint64_t length = text.size();
  auto written = write_all(file.value(), path, std::as_bytes(std::span(&length, 1)));
  if (written.ok()) written = write_all(file.value(), path, std::as_bytes(std::span(text)));
  if (!written.ok()) return std::move(written).error();
  return SafeTensorsWriter(path, std::move(file).value(), type, elements);
}

Status SafeTensorsWriter::append(std::span<const float> values) {
  STARLING_ASSERT(values.size() <= missing_);
  missing_ -= values.size();
  while (!values.empty()) {
    const auto piece = values.first(std::min(kPieceElements, values.size()));
    encoded_.resize(piece.size() * bytes_of(type_));
    encode(type_, piece, encoded_);
    if (Status written = write_all(file_, path_, encoded_); !written.ok()) return written;
    values = values.subspan(piece.size());
  }
  return ok_status();
}

Status SafeTensorsWriter::finish() {
  STARLING_ASSERT(missing_ == 0);
  if (::fdatasync(file_.get()) != 0) return io_error("write", path_, errno);
  return ok_status();
}

}  // namespace starling::peer

// ByteWriter and ByteReader: fixed-width little-endian fields, one after the other, for our file
// formats. The reader believes nothing: a read past the end gives zeros and makes ok() false for
// good, so a decoder reads a whole record and asks once. No alignment, no padding, no allocation
// beyond the writer's vector. Plain values, one owner.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace starling::peer {

// Sections hold floats as they lie in memory, so the machine must be little-endian.
static_assert(std::endian::native == std::endian::little);

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // Cut at `width` or filled with zeros up to it.
  void put_text(std::string_view text, std::size_t width) {
    const std::string_view kept = text.substr(0, width);
    append(std::as_bytes(std::span(kept)));
    fill_to(bytes_.size() + width - kept.size());
  }
  void fill_to(std::size_t size) { bytes_.resize(size); }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  template <class T>
  T get() noexcept {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const std::span<const std::byte> source = take(sizeof(T));
    if (!source.empty()) std::memcpy(&value, source.data(), sizeof(T));
    return value;
  }
  // Empty, and ok() is false, if fewer than `count` bytes are left.
  std::span<const std::byte> take(std::size_t count) noexcept {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  // Text of a field of `width` bytes, without the zeros that fill it.
  std::string_view text(std::size_t width) noexcept {
    const std::span<const std::byte> field = take(width);
    const std::string_view whole(reinterpret_cast<const char*>(field.data()), field.size());
    return whole.substr(0, whole.find('\0'));
  }

  bool ok() const noexcept { return ok_; }
  std::size_t remaining() const noexcept { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace starling::peer

// The two Cereal archives of the wire, and what they do with a value that is out of range.
//
// WireIn reads from bytes it does not own and throws cereal::Exception for anything that is short,
// out of range or not finite; it never allocates. WireOut appends to a vector. Both know arithmetic
// types, enumerations with a last member, and bounded lists; structs list their fields in wire.cpp.
// Both know the version of the frame: a field that version 2 brings is one line in serialize(),
//   if (archive.version() >= 2) archive(message.field);
// and keeps its default where the frame is older. Included by wire.cpp and its test only.
// Thread: plain values.
#pragma once

#include <bit>
#include <cereal/cereal.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "base/bounded.h"
#include "base/ids.h"

namespace starling::gossip {

static_assert(std::endian::native == std::endian::little, "the wire is copied from memory");

class WireIn : public cereal::InputArchive<WireIn, cereal::AllowEmptyClassElision> {
 public:
  WireIn(std::span<const std::byte> in, std::uint8_t version)
      : InputArchive(this), in_(in), version_(version) {}

  void read(void* target, std::size_t bytes) {
    if (bytes > in_.size()) throw cereal::Exception("the body is too short");
    std::memcpy(target, in_.data(), bytes);
    in_ = in_.subspan(bytes);
  }
  std::size_t remaining() const { return in_.size(); }
  std::uint8_t version() const { return version_; }

 private:
  std::span<const std::byte> in_;
  const std::uint8_t version_;
};

class WireOut : public cereal::OutputArchive<WireOut, cereal::AllowEmptyClassElision> {
 public:
  WireOut(std::vector<std::byte>& out, std::uint8_t version)
      : OutputArchive(this), out_(out), version_(version) {}

  void write(const void* source, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(source);
    out_.insert(out_.end(), first, first + bytes);
  }
  std::uint8_t version() const { return version_; }

 private:
  std::vector<std::byte>& out_;
  const std::uint8_t version_;
};

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(WireIn& archive, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    std::uint8_t byte = 0;
    archive.read(&byte, 1);
    if (byte > 1) throw cereal::Exception("neither true nor false");
    value = byte == 1;
  } else {
    archive.read(&value, sizeof value);
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) throw cereal::Exception("a number is not finite");
    }
  }
}

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(WireOut& archive, const T& value) {
  archive.write(&value, sizeof value);
}

// An enumeration whose members are 0 .. last. A reason that only a later version knows must not
// cost its sender anything: it is read as `other`, where there is one.
template <class Enum>
struct Ranged {
  Enum& value;
  Enum last;
  std::optional<Enum> other = std::nullopt;

  template <class Archive>
  void serialize(Archive& archive) {
    static_assert(std::is_same_v<std::underlying_type_t<Enum>, std::uint8_t>);
    auto raw = static_cast<std::uint8_t>(value);
    archive(raw);
    const bool known = raw <= static_cast<std::uint8_t>(last);
    if (!known && !other) throw cereal::Exception("unknown enumerator");
    value = known ? static_cast<Enum>(raw) : *other;
  }
};

}  // namespace starling::gossip

namespace starling {

// Found by argument-dependent lookup, so they live where the types live.
template <class Archive, class Tag, class Rep>
void serialize(Archive& archive, Id<Tag, Rep>& id) {
  archive(id.value);
}

template <class Archive, class T, std::size_t kCapacity>
void serialize(Archive& archive, BoundedList<T, kCapacity>& list) {
  static_assert(kCapacity <= 255, "a list's size is one byte on the wire");
  auto size = static_cast<std::uint8_t>(list.size());
  archive(size);
  if (size > kCapacity) throw cereal::Exception("a list is too long");
  if constexpr (Archive::is_loading::value) {
    list.clear();
    for (std::uint8_t i = 0; i < size; ++i) {
      T value{};
      archive(value);
      STARLING_ASSERT(list.try_push(value));
    }
  } else {
    for (T& value : list) archive(value);
  }
}

}  // namespace starling

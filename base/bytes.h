// Bytes: read-only bytes with an erased owner: a library's message, a copy, or nothing. Move-only;
// the destructor calls `release(owner)` once, on whichever thread drops it last, so a release
// function must be thread-safe. This is how a payload goes from socket to mixer without a copy.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace starling {

class Bytes {
 public:
  using Release = void (*)(void* owner) noexcept;

  Bytes() noexcept = default;
  Bytes(std::span<const std::byte> view, void* owner, Release release) noexcept
      : view_(view), owner_(owner), release_(release) {}
  Bytes(Bytes&& other) noexcept { *this = std::move(other); }
  Bytes& operator=(Bytes&& other) noexcept {
    if (this == &other) return *this;
    reset();
    view_ = std::exchange(other.view_, {});
    owner_ = std::exchange(other.owner_, nullptr);
    release_ = std::exchange(other.release_, nullptr);
    return *this;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { reset(); }

  // A heap copy that owns itself.
  static Bytes copy_of(std::span<const std::byte> source);

  std::span<const std::byte> view() const noexcept { return view_; }
  std::size_t size() const noexcept { return view_.size(); }
  bool empty() const noexcept { return view_.empty(); }
  void reset() noexcept {
    if (release_ != nullptr) release_(owner_);
    view_ = {};
    owner_ = nullptr;
    release_ = nullptr;
  }

 private:
  std::span<const std::byte> view_;
  void* owner_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace starling

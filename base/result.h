// Result<T>: a value or an Error, for everything that may go wrong outside the program's control:
// files, configuration, libraries. Errors gain context on the way up and reach the user whole.
//
// A Result must be looked at ([[nodiscard]]). value() and error() are for rvalues, so that reading
// one is visibly the last use: `return std::move(shard).error().with_context("loading shard");`
// Thread: a plain value, no sharing. Programmer errors (value() of a failure) are assertions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace starling {

enum class ErrorCode : std::uint8_t {
  kInvalidConfig,
  kIncompatible,
  kNotFound,
  kIo,
  kTimeout,
  kUnavailable,
  kProtocol,
  kCorrupt,
  kExhausted,
  kCancelled,
};

// Constant text such as "invalid configuration".
std::string_view to_string(ErrorCode code) noexcept;

// The place in the source where an error was made; for developers, not for users.
struct Place {
  const char* file;
  int line;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message, Place place = Place::here());

  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const Place& place() const noexcept { return place_; }
  // "loading shard 3" + ": " + message.
  Error with_context(std::string_view prefix) &&;
  // Message, code and place, for a log line.
  std::string describe() const;

 private:
  ErrorCode code_;
  std::string message_;
  Place place_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const noexcept { return state_.index() == 0; }

  T&& value() && {
    STARLING_ASSERT(ok());
    return std::get<0>(std::move(state_));
  }
  T& value() & {
    STARLING_ASSERT(ok());
    return std::get<0>(state_);
  }
  Error&& error() && {
    STARLING_ASSERT(!ok());
    return std::get<1>(std::move(state_));
  }
  const Error& error() const& {
    STARLING_ASSERT(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() { return Status{Unit{}}; }

}  // namespace starling

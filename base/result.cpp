#include "base/result.h"

namespace starling {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidConfig: return "invalid configuration";
    case ErrorCode::kIncompatible: return "incompatible";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kIo: return "input/output error";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kProtocol: return "protocol error";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kExhausted: return "exhausted";
    case ErrorCode::kCancelled: return "cancelled";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message, Place place)
    : code_(code), message_(std::move(message)), place_(place) {}

Error Error::with_context(std::string_view prefix) && {
  message_ = std::string(prefix) + ": " + message_;
  return std::move(*this);
}

std::string Error::describe() const {
  return message_ + " (" + std::string(to_string(code_)) + ", " + place_.file + ":" +
         std::to_string(place_.line) + ")";
}

}  // namespace starling

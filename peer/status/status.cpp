#include "peer/status/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "peer/io/human_text.h"
#include "peer/io/progress_bar.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr std::size_t kLineBytesMax = 64 * 1024;
constexpr std::size_t kTextBytesMax = 4096;

Error bad_field(const char* key, std::string_view what) {
  return Error(ErrorCode::kProtocol,
               "status field \"" + std::string(key) + "\" " + std::string(what));
}

// Text ends up on a terminal: control characters could move its cursor or worse.
Status read(const json& value, const char* key, std::string& target) {
  if (!value.is_string()) return bad_field(key, "is not text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kTextBytesMax) return bad_field(key, "is too long");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return bad_field(key, "holds a control character");
    }
  }
  target = text;
  return ok_status();
}

Status read(const json& value, const char* key, double& target) {
  if (value.is_null()) {  // how JSON writes a loss that is no number any more
    target = std::numeric_limits<double>::quiet_NaN();
    return ok_status();
  }
  if (!value.is_number()) return bad_field(key, "is not a number");
  target = value.get<double>();
  return ok_status();
}

Status read(const json& value, const char* key, bool& target) {
  if (!value.is_boolean()) return bad_field(key, "is neither true nor false");
  target = value.get<bool>();
  return ok_status();
}

template <class Unsigned>
Status read(const json& value, const char* key, Unsigned& target) {
  if (!value.is_number_unsigned()) return bad_field(key, "is not a count");
  const auto count = value.get<std::uint64_t>();
  if (count > std::numeric_limits<Unsigned>::max()) return bad_field(key, "is out of range");
  target = static_cast<Unsigned>(count);
  return ok_status();
}

// One list of the fields for both directions.
template <class StatusType, class Visitor>
void visit_fields(StatusType& status, Visitor&& visit) {
  visit("peer", status.peer);
  visit("phase", status.phase);
  visit("step", status.step);
  visit("tokens", status.tokens);
  visit("tokens_budget", status.tokens_budget);
  visit("swarm_tokens", status.swarm_tokens);
  visit("tokens_per_second", status.tokens_per_second);
  visit("loss", status.loss);
  visit("validation_loss", status.validation_loss);
  visit("partners", status.partners);
  visit("dialable", status.dialable);
  visit("relays", status.relays);
  visit("relay_holders", status.relay_holders);
  visit("exchanges", status.exchanges);
  visit("exchanges_declined", status.exchanges_declined);
  visit("exchanges_failed", status.exchanges_failed);
  visit("bytes_out", status.bytes_out);
  visit("bytes_in", status.bytes_in);
  visit("last_exchange_seconds_ago", status.last_exchange_seconds_ago);
  visit("disagreement", status.disagreement);
  visit("displacement", status.displacement);
  visit("held_seconds", status.held_seconds);
  visit("train_seconds", status.train_seconds);
  visit("parts", status.parts);
  visit("parts_never", status.parts_never);
  visit("parts_once", status.parts_once);
  visit("parts_read", status.parts_read);
  visit("checkpoints", status.checkpoints);
  visit("checkpoints_failed", status.checkpoints_failed);
  visit("checkpoint", status.checkpoint);
}

}  // namespace

json to_object(const PeerStatus& status) {
  json object = json::object();
  visit_fields(status, [&object](const char* key, const auto& value) { object[key] = value; });
  return object;
}

std::string to_json(const PeerStatus& status) {
  return to_object(status).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string to_line(const PeerStatus& status) {
  std::string line = fmt::format("step {}", status.step);
  const auto budget = static_cast<double>(status.tokens_budget);
  const auto tokens = static_cast<double>(std::min(status.tokens, status.tokens_budget));
  if (budget > 0) line += fmt::format(", {:.0f} %", std::floor(100 * tokens / budget));
  line += fmt::format(": loss {:.4f}", status.loss);
  if (status.validation_loss > 0)
    line += fmt::format(", validation {:.4f}", status.validation_loss);
  line += fmt::format(", {} tokens/s", human_count(status.tokens_per_second));
  if (status.partners > 0 || status.exchanges > 0) {
    line += fmt::format(", {}, {}", counted(status.partners, "partner"),
                        counted(status.exchanges, "exchange"));
  }
  if (budget > 0 && status.tokens_per_second > 0) {
    line += ", " + time_left((budget - tokens) / status.tokens_per_second);
  }
  return line;
}

Result<PeerStatus> parse_status(std::string_view line) {
  if (line.size() > kLineBytesMax) return Error(ErrorCode::kProtocol, "status line is too long");
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return Error(ErrorCode::kProtocol, "status line is no JSON object");
  PeerStatus status;
  Status outcome = ok_status();
  visit_fields(status, [&](const char* key, auto& target) {
    const auto found = object.find(key);
    if (!outcome.ok() || found == object.end()) return;
    outcome = read(*found, key, target);
  });
  if (!outcome.ok()) return std::move(outcome).error();
  return status;
}

}  // namespace starling::peer

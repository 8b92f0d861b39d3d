#include "peer/status/event_file.h"

#include <boost/crc.hpp>
#include <nlohmann/json.hpp>

#include "base/protobuf.h"

namespace starling::peer {

namespace {

struct Shown {
  const char* key;  // in the line
  const char* tag;  // what stands before a slash makes a group
};

constexpr Shown kShown[] = {
    {"loss", "loss"},
    {"validation_loss", "validation_loss"},
    {"learning_rate", "learning_rate"},
    {"gradient_norm", "gradient_norm"},
    {"tokens_per_second", "throughput/tokens_per_second"},
    {"step_seconds", "throughput/step_seconds"},
    {"held_seconds", "throughput/held_seconds"},
    {"tokens", "throughput/tokens"},
    {"swarm_tokens", "throughput/swarm_tokens"},
    {"disagreement", "exchange/disagreement"},
    {"displacement", "exchange/displacement"},
    {"outer_gain", "exchange/outer_gain"},
    {"swarm_loss", "swarm/loss"},
    {"equal_peers", "swarm/equal_peers"},
    {"drift", "swarm/drift"},
    {"partners", "exchange/partners"},
    {"exchanges", "exchange/completed"},
    {"exchanges_declined", "exchange/declined"},
    {"exchanges_failed", "exchange/failed"},
    {"bytes_out", "exchange/bytes_out"},
    {"bytes_in", "exchange/bytes_in"},
};

std::string event_at(EventTime time) {
  std::string event;
  protobuf::append_double(1, time.unix_seconds, event);
  if (time.step != 0) protobuf::append_number(2, time.step, event);
  return event;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string event_record(std::string_view event) {
  std::string record;
  protobuf::append_fixed(std::uint64_t{event.size()}, record);
  protobuf::append_fixed(masked_crc32c(record), record);
  record += event;
  protobuf::append_fixed(masked_crc32c(event), record);
  return record;
}

std::string event_file_head(EventTime first) {
  std::string version = event_at({.unix_seconds = first.unix_seconds});
  protobuf::append_bytes(3, "brain.Event:2", version);
  std::string start = event_at(first);
  std::string session;
  protobuf::append_number(1, 1, session);  // START
  protobuf::append_bytes(7, session, start);
  return event_record(version) + event_record(start);
}

std::string event_of_metrics(const nlohmann::json& line, double unix_seconds) {
  std::string event =
      event_at({.unix_seconds = unix_seconds, .step = line.value("step", std::uint64_t{0})});
  std::string summary;
  for (const Shown& shown : kShown) {
    const auto found = line.find(shown.key);
    if (found == line.end()) continue;
    std::string value;
    protobuf::append_bytes(1, shown.tag, value);
    protobuf::append_float(2, found->get<float>(), value);
    protobuf::append_bytes(1, value, summary);
  }
  protobuf::append_bytes(5, summary, event);
  return event_record(event);
}

}  // namespace starling::peer

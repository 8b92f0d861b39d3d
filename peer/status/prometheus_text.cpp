#include "peer/status/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace starling::peer {

namespace {

using nlohmann::json;

// One number of the report.
struct Single {
  const char* key;
  const char* name;
  const char* type;
  const char* help;
};

constexpr Single kSingles[] = {
    {"step", "starling_steps_total", "counter", "Training steps behind the weights of this peer."},
    {"tokens", "starling_tokens_total", "counter", "Tokens that this peer has trained on."},
    {"tokens_budget", "starling_tokens_budget", "gauge", "Tokens after which this peer is done."},
    {"swarm_tokens", "starling_swarm_tokens", "gauge", "Tokens of the swarm, as known here."},
    {"tokens_per_second", "starling_tokens_per_second", "gauge", "Over the last steps."},
    {"loss", "starling_loss", "gauge", "Of the last step."},
    {"validation_loss", "starling_validation_loss", "gauge",
     "On held-out text, when last measured."},
    {"swarm_loss", "starling_swarm_loss", "gauge",
     "Mean of the last losses of this peer and of the living partners that told theirs lately."},
    {"equal_peers", "starling_equal_peers", "gauge",
     "Peers of one speed that the swarm is worth, as outer steps reckon."},
    {"drift", "starling_drift", "gauge",
     "Difference to the partners over the step of an outer step; below 3 is usual."},
    {"learning_rate", "starling_learning_rate", "gauge", "Of the last step."},
    {"gradient_norm", "starling_gradient_norm", "gauge", "Of the last step."},
    {"train_seconds", "starling_train_seconds_total", "counter", "Time spent in training steps."},
    {"held_seconds", "starling_held_seconds_total", "counter",
     "Time for which anything but computing held up the trainer."},
    {"snapshots", "starling_snapshots_total", "counter", "Stripes copied out for an outer step."},
    {"snapshots_skipped", "starling_snapshots_skipped_total", "counter",
     "Stripes that no slot was free for."},
    {"corrections", "starling_corrections_total", "counter", "Corrections added to the weights."},
    {"outer_steps", "starling_outer_steps_total", "counter", "Outer steps, one for each stripe."},
    {"outer_steps_refused", "starling_outer_steps_refused_total", "counter",
     "Outer steps not taken: the weights were not finite."},
    {"checkpoints", "starling_checkpoints_total", "counter", "Checkpoints written."},
    {"checkpoints_skipped", "starling_checkpoints_skipped_total", "counter",
     "Checkpoints left out because the one before was still being written."},
    {"checkpoints_failed", "starling_checkpoints_failed_total", "counter",
     "Checkpoints that could not be written."},
    {"reports_dropped", "starling_reports_dropped_total", "counter",
     "Reports of steps that found no room."},
    {"lines_dropped", "starling_lines_dropped_total", "counter",
     "Lines of figures and events that could not be written."},
    {"disagreement", "starling_disagreement", "gauge",
     "Running RMS difference of a parameter between this peer and its partners."},
    {"displacement", "starling_displacement", "gauge",
     "Running RMS change of a parameter between two outer steps."},
    {"outer_gain", "starling_outer_gain", "gauge",
     "How many times as far as a lasting displacement says the outer step moves the weights."},
    {"last_exchange_seconds_ago", "starling_last_exchange_age_seconds", "gauge",
     "Since the last completed exchange."},
    {"rounds_skipped", "starling_rounds_skipped_total", "counter",
     "Fragments for which no partner was found in time."},
    {"stripes_compensated", "starling_stripes_compensated_total", "counter",
     "Stripes that were taken back."},
    {"stripes_orphaned", "starling_stripes_orphaned_total", "counter",
     "Stripes whose outcome at the partner stays unknown."},
    {"attempts_fenced", "starling_attempts_fenced_total", "counter",
     "Transfers given up for want of an answer in time."},
    {"payloads_given_up", "starling_payloads_given_up_total", "counter",
     "Payloads that were not sent: too many, too late, or for a peer that is gone."},
    {"missed_seconds", "starling_missed_seconds", "gauge",
     "Of the others' training since its checkpoint, which this peer has not met yet."},
    {"health_score", "starling_health_score", "gauge",
     "0: healthy; more: this peer is slow itself and accuses others later."},
    {"slots_missing", "starling_slots_missing_total", "counter",
     "Orders of an exchange that found no slot."},
    {"payloads_refused", "starling_payloads_refused_total", "counter",
     "Payloads turned down by the admission gate."},
    {"bytes_out", "starling_sent_bytes_total", "counter", "Bytes of all frames sent."},
    {"bytes_in", "starling_received_bytes_total", "counter", "Bytes of all frames received."},
    {"upload_limit", "starling_upload_limit_bytes_per_second", "gauge",
     "What may be sent at most; 0: no limit."},
    {"download_limit", "starling_download_limit_bytes_per_second", "gauge",
     "What may be received at most; 0: no limit."},
    {"partners", "starling_partners", "gauge", "Living peers that this one may exchange with."},
    {"partners_relayed", "starling_partners_relayed", "gauge",
     "Partners that only a relay leads to."},
    {"peers_muted", "starling_peers_muted", "gauge", "Peers that are not listened to for a while."},
    {"peers_clipped", "starling_peers_clipped_total", "counter",
     "Peers that claimed more tokens than count."},
    {"mutes_heard", "starling_mutes_heard_total", "counter",
     "Times that others said they do not listen to this peer."},
    {"messages_refused", "starling_messages_refused_total", "counter",
     "Messages of unknown or refused peers, or without meaning here."},
    {"part_entries_refused", "starling_part_entries_refused_total", "counter",
     "What others said of parts of the data or of readers that there are not."},
    {"handshakes_failed", "starling_handshakes_failed_total", "counter",
     "Connections of ours that whoever answered has ended."},
    {"dialable", "starling_dialable", "gauge", "1: this peer says that others can dial it."},
    {"relayed_bytes", "starling_relayed_bytes_total", "counter", "Bytes forwarded for others."},
    {"parts", "starling_data_parts", "gauge", "Parts of the training data."},
    {"parts_never", "starling_data_parts_unread", "gauge",
     "Parts that nobody has read, as far as this peer knows."},
    {"parts_read", "starling_data_parts_read_total", "counter", "Parts that this peer has read."},
};

// Counts by a word: an object of the report.
struct ByWord {
  const char* key;
  const char* name;
  const char* type;
  const char* label;
  const char* help;
};

constexpr ByWord kByWord[] = {
    {"outcomes", "starling_exchanges_total", "counter", "outcome",
     "Exchanges that ended, in either role."},
    {"peers_known", "starling_peers", "gauge", "health", "Other peers in this one's view."},
    {"rejected", "starling_rejected_total", "counter", "reason",
     "What others sent and this peer turned down."},
    {"rejections_heard", "starling_rejections_heard_total", "counter", "reason",
     "What this peer sent and others turned down."},
    {"frames_dropped", "starling_frames_dropped_total", "counter", "fault",
     "Frames of others that were not taken."},
    {"callers_ended", "starling_callers_ended_total", "counter", "reason",
     "Connections of others that were ended, or not let in."},
    {"envelopes_dropped", "starling_envelopes_dropped_total", "counter", "fault",
     "Sealed messages that were not sound."},
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') result += '\\';
    if (letter == '\n') {
      result += "\\n";
    } else {
      result += letter;
    }
  }
  return result;
}

// JSON has no numbers that are none: as text they are null, and here they may still be themselves.
std::string number(const json& value) {
  if (value.is_null()) return "NaN";
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double none = value.get<double>();
    if (std::isnan(none)) return "NaN";
    return none > 0 ? "+Inf" : "-Inf";
  }
  return value.dump();
}

bool is_number(const json& value) {
  return value.is_null() || value.is_boolean() || value.is_number();
}

// Both are 0 or less until they are measured for the first time.
bool is_unknown(std::string_view key, const json& value) {
  if (!value.is_number()) return false;
  if (key == "validation_loss") return value.get<double>() == 0;
  return key == "last_exchange_seconds_ago" && value.get<double>() < 0;
}

class Writer {
 public:
  void head(const char* name, const char* type, const char* help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
  }
  void sample(const char* name, const json& value) {
    fmt::format_to(std::back_inserter(text_), "{} {}\n", name, number(value));
  }
  void sample(const char* name, std::string_view label, std::string_view word, const json& value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}=\"{}\"}} {}\n", name, label, escaped(word),
                   number(value));
  }
  void line(std::string_view text) { text_.append(text).append("\n"); }
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

void write_info(Writer& writer, const json& report) {
  std::string labels;
  for (const char* key : {"peer", "id", "run", "device", "phase"}) {
    const auto found = report.find(key);
    if (found == report.end() || !found->is_string()) continue;
    labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", key,
                          escaped(found->get_ref<const std::string&>()));
  }
  writer.head("starling_info", "gauge", "Who this is; always 1.");
  writer.line(fmt::format("starling_info{{{}}} 1", labels));
}

void write_fragments(Writer& writer, const json& report) {
  const auto found = report.find("fragments");
  if (found == report.end() || found->empty()) return;
  const char* const name = "starling_fragment_disagreement";
  writer.head(name, "gauge", "Of the stripe of a fragment where it is largest.");
  for (const json& row : *found) {
    writer.sample(name, "fragment", row.at("fragment").dump(), row.at("disagreement"));
  }
  const char* const age = "starling_fragment_age_seconds";
  writer.head(age, "gauge", "Since a fragment was averaged last.");
  for (const json& row : *found) {
    const auto seconds = row.find("age_seconds");
    if (seconds == row.end()) continue;
    writer.sample(age, "fragment", row.at("fragment").dump(), *seconds);
  }
}

// One sample for each kind that is up.
void write_alarms(Writer& writer, const json& report) {
  const auto found = report.find("alarms");
  if (found == report.end() || found->empty()) return;
  const char* const name = "starling_alarm";
  writer.head(name, "gauge", "1 for each kind of alarm that is up.");
  std::set<std::string> told;
  for (const json& row : *found) {
    const auto kind = row.at("kind").get<std::string>();
    if (told.insert(kind).second) writer.sample(name, "kind", kind, 1);
  }
}

}  // namespace

std::string prometheus_text(const json& report) {
  Writer writer;
  write_info(writer, report);
  for (const Single& row : kSingles) {
    const auto found = report.find(row.key);
    if (found == report.end() || !is_number(*found) || is_unknown(row.key, *found)) continue;
    writer.head(row.name, row.type, row.help);
    writer.sample(row.name, *found);
  }
  for (const ByWord& row : kByWord) {
    const auto found = report.find(row.key);
    if (found == report.end() || !found->is_object()) continue;
    writer.head(row.name, row.type, row.help);
    for (const auto& [word, count] : found->items()) {
      if (is_number(count)) writer.sample(row.name, row.label, word, count);
    }
  }
  write_fragments(writer, report);
  write_alarms(writer, report);
  return std::move(writer).take();
}

}  // namespace starling::peer

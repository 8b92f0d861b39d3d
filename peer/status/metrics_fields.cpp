#include "peer/status/metrics_fields.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace starling::peer {

namespace {

// The reasons that occurred, in words.
nlohmann::json by_reason(const std::array<std::uint64_t, gossip::kRejectReasons>& counts) {
  nlohmann::json line = nlohmann::json::object();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto reason = static_cast<gossip::RejectReason>(i);
    if (counts[i] > 0) line[std::string(to_string(reason))] = counts[i];
  }
  return line;
}

// Those that occurred.
using Counts = std::initializer_list<std::pair<const char*, std::uint64_t>>;
nlohmann::json by_word(const Counts& counts) {
  nlohmann::json line = nlohmann::json::object();
  for (const auto& [word, count] : counts) {
    if (count > 0) line[word] = count;
  }
  return line;
}

}  // namespace

void add_relays(nlohmann::json& line, const gossip::CoreStats& core,
                const gossip::RelayStats& relayed) {
  line["partners_relayed"] = core.partners_relayed;
  line["relays"] = core.relays;
  line["relay_holders"] = core.relay_holders;
  line["relayed_frames"] = relayed.frames;
  line["relayed_bytes"] = relayed.bytes;
  line["relayed_dropped"] = relayed.unasked + relayed.over_rate + relayed.lost;
  nlohmann::json faults = nlohmann::json::object();
  for (std::size_t i = 1; i < relayed.envelopes.size(); ++i) {
    const auto fault = static_cast<gossip::EnvelopeFault>(i);
    if (relayed.envelopes[i] > 0) faults[std::string(to_string(fault))] = relayed.envelopes[i];
  }
  line["envelopes_dropped"] = faults;
}

void add_link_faults(nlohmann::json& line, const gossip::LinkStats& link) {
  line["frames_dropped"] = by_word({{"damaged", link.damaged},
                                    {"other version", link.other_version},
                                    {"malformed", link.malformed},
                                    {"oversized", link.oversized},
                                    {"several parts", link.multipart},
                                    {"other name", link.forged},
                                    {"ask for nothing", link.idle},
                                    {"no proof of the secret", link.unproven},
                                    {"not allowed", link.not_allowed}});
  const gossip::CallerStats& callers = link.callers;
  line["callers_ended"] = by_word({{"no handshake", callers.unfinished},
                                   {"asked to come again", callers.asked_again},
                                   {"no messages", callers.greedy},
                                   {"not allowed any more", callers.unwelcome},
                                   {"too many", callers.crowded},
                                   {"too fast", callers.hasty},
                                   {"do not read", callers.idle_readers},
                                   {"too much", callers.floods}});
  line["handshakes_failed"] = link.handshakes_failed;
}

void add_conduct(nlohmann::json& line, const gossip::CoreStats& core, std::size_t peers_muted) {
  line["rejected"] = by_reason(core.rejected);
  line["rejections_heard"] = by_reason(core.rejections_heard);
  line["peers_muted"] = peers_muted;
  line["peers_clipped"] = core.peers_clipped;
  line["messages_muted"] = core.messages_muted;
  line["messages_refused"] = core.messages_refused;
  line["part_entries_refused"] = core.part_entries_refused;
  line["mutes_heard"] = core.mutes_heard;
  line["attempts_fenced"] = core.attempts_fenced;
  line["attempts_resumed"] = core.attempts_resumed;
}

}  // namespace starling::peer

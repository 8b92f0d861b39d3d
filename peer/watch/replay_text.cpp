#include "peer/watch/replay_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "peer/io/json_fields.h"

namespace starling::peer {

namespace {

using nlohmann::json;
using Peers = std::span<const LoggedPeer>;

constexpr std::size_t kTextMax = 100;
constexpr std::size_t kAlarmMax = 240;
constexpr std::size_t kIdDigits = 16;

std::string words(const json& event, const char* key) { return text(event, key, kTextMax); }

std::string count(const json& event, const char* key) {
  const auto value = number(event, key);
  return value ? fmt::format("{:.0f}", *value) : "-";
}

std::string who(const json& event, const char* key, Peers peers) {
  const std::string id = text(event, key, kIdDigits);
  const auto known = std::find_if(peers.begin(), peers.end(), [&id](const LoggedPeer& peer) {
    return !peer.id.empty() && peer.id == id;
  });
  return known == peers.end() ? id : known->name;
}

std::string reason_text(const json& event) {
  const std::string reason = words(event, "reason");
  return reason == "-" || reason.empty() ? "" : ": " + reason;
}

std::string exchange_text(const json& event, Peers peers) {
  const std::string what =
      fmt::format("fragment {} with {}", count(event, "fragment"), who(event, "partner", peers));
  const std::string outcome = words(event, "outcome");
  if (outcome == "completed") return "exchanged " + what;
  return fmt::format("exchange of {}: {}", what, outcome);
}

std::string peer_text(const json& event, Peers peers) {
  const std::string health = words(event, "health");
  return fmt::format("{} at {} {} {}", who(event, "peer", peers), words(event, "address"),
                     health == "left" ? "has" : "is", health);
}

std::string swarm_text(const json& event, Peers) {
  const std::string change = words(event, "change"), moved = count(event, "moved");
  if (change == "alone") return fmt::format("alone: all {} others fell silent", moved);
  if (change == "split") {
    return fmt::format("the swarm has split: {} peers fell silent at once, {} are left", moved,
                       count(event, "alive"));
  }
  return fmt::format("the swarm is {}: {} peers came back", change, moved);
}

std::string alarm_text(const json& event, Peers) {
  const std::string kind = words(event, "kind");
  return is_set(event, "up") ? fmt::format("alarm ({}): {}", kind, text(event, "text", kAlarmMax))
                             : fmt::format("no alarm ({}) any more", kind);
}

std::string rejected_text(const json& event, Peers peers) {
  const std::string peer = who(event, "peer", peers), times = count(event, "count");
  if (is_set(event, "by_us")) {
    return fmt::format("turned down what {} sent{} ({} so far)", peer, reason_text(event), times);
  }
  return fmt::format("{} turned down what this one sent{} ({} so far)", peer, reason_text(event),
                     times);
}

std::string muted_text(const json& event, Peers peers) {
  const std::string peer = who(event, "peer", peers), minutes = count(event, "minutes");
  if (is_set(event, "by_us")) {
    return fmt::format("does not listen to {} for {} minutes{}", peer, minutes, reason_text(event));
  }
  return fmt::format("{} does not listen to this one for {} minutes", peer, minutes);
}

std::string clipped_text(const json& event, Peers peers) {
  return fmt::format("{} claims {} tokens; {} count", who(event, "peer", peers),
                     count(event, "said"), count(event, "counted"));
}

std::string footing_text(const json& event, Peers) {
  const std::string footing = words(event, "footing");
  if (footing == "settled") return "its weights count like the others': it has met them";
  if (footing == "left alone") return "its weights count in full: who has trained more is gone";
  return fmt::format("{}: its weights count for {} yet", footing,
                     footing == "late" ? "less" : "little");
}

std::string pace_text(const json& event, Peers peers) {
  const double share = number(event, "speed_share").value_or(1);
  if (!(share > 0) || !is_set(event, "behind")) return "rounds as long as its own suggest";
  return fmt::format("shorter rounds: {} is taken for {:.3g} times as fast",
                     who(event, "fastest", peers), 1 / share);
}

std::string refused_text(const json& event, Peers peers) {
  return fmt::format("{} {} at {}{}", is_set(event, "by_us") ? "refused" : "refused by",
                     who(event, "peer", peers), words(event, "address"), reason_text(event));
}

std::string relay_text(const json& event, Peers peers) {
  const std::string peer = who(event, "peer", peers);
  const char* const verb = is_set(event, "on") ? "relays" : "no longer relays";
  if (is_set(event, "by_us")) return fmt::format("{} for {}", verb, peer);
  return fmt::format("{} {} for this one", peer, verb);
}

using Tell = std::string (*)(const json& event, Peers peers);

const std::map<std::string, Tell>& tellers() {
  static const std::map<std::string, Tell> kTellers = {
      {"started",
       [](const json& e, Peers) {
         return number(e, "step").value_or(0) > 0 ? "started again, from step " + count(e, "step")
                                                  : std::string("started");
       }},
      {"checkpoint",
       [](const json& e, Peers) {
         return fmt::format("wrote {}, step {}", words(e, "file"), count(e, "step"));
       }},
      {"ending",
       [](const json& e, Peers) {
         return fmt::format("training has ended after step {}: {}", count(e, "step"),
                            words(e, "why"));
       }},
      {"exchange", exchange_text},
      {"peer", peer_text},
      {"swarm", swarm_text},
      {"rejected", rejected_text},
      {"muted", muted_text},
      {"tokens_clipped", clipped_text},
      {"footing", footing_text},
      {"pace", pace_text},
      {"alarm", alarm_text},
      {"sick",
       [](const json& e, Peers) {
         return fmt::format("training has diverged after step {}: {} are no finite numbers",
                            count(e, "step"), words(e, "what"));
       }},
      {"join",
       [](const json& e, Peers peers) {
         return fmt::format("state: {} {}{}", words(e, "step"), who(e, "peer", peers),
                            reason_text(e));
       }},
      {"joined",
       [](const json& e, Peers) {
         return fmt::format("state: {}; step {}", words(e, "outcome"), count(e, "step"));
       }},
      {"refused", refused_text},
      {"relay", relay_text},
  };
  return kTellers;
}

}  // namespace

const std::set<std::string>& event_kinds() {
  static const std::set<std::string> kKinds = [] {
    std::set<std::string> kinds;
    for (const auto& [kind, tell] : tellers()) kinds.insert(kind);
    return kinds;
  }();
  return kKinds;
}

std::string event_text(const json& event, Peers peers) {
  const auto found = tellers().find(words(event, "event"));
  return found == tellers().end() ? "-" : found->second(event, peers);
}

void ReplayState::take(const json& event) {
  const std::string kind = words(event, "event");
  if (kind == "started") alive_.clear();
  if (kind == "exchange") {
    const std::string outcome = words(event, "outcome");
    completed_ += outcome == "completed" ? 1 : 0;
    failed_ += outcome == "completed" || outcome == "declined" ? 0 : 1;
  }
  if (kind != "peer") return;
  const std::string health = words(event, "health"), id = peer::text(event, "peer", kIdDigits);
  if (health == "alive") alive_.insert(id);
  if (health == "dead" || health == "left") alive_.erase(id);
}

std::string ReplayState::text(const LoggedPeer& peer, double seconds) const {
  std::string line =
      fmt::format("{} others alive, {} exchanges, {} failed", alive_.size(), completed_, failed_);
  const auto after =
      std::upper_bound(peer.losses.begin(), peer.losses.end(), seconds,
                       [](double at, const LoggedLoss& loss) { return at < loss.seconds; });
  if (after == peer.losses.begin()) return line;
  line += fmt::format(", step {:.0f}, loss {:.4f}", (after - 1)->step, (after - 1)->loss);
  const auto measured =
      std::find_if(std::make_reverse_iterator(after), peer.losses.rend(),
                   [](const LoggedLoss& loss) { return loss.validation.has_value(); });
  if (measured != peer.losses.rend())
    line += fmt::format(", validation {:.4f}", *measured->validation);
  return line;
}

}  // namespace starling::peer

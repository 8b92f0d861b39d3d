#include "peer/status/exchange_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace starling::peer {

using gossip::Outcome;

namespace {

constexpr double kNewest = 0.3;  // its weight in the mean

}  // namespace

static_assert(static_cast<std::size_t>(Outcome::kAborted) == 5, "the last of six");

PeerId partner_of(const gossip::ExchangeEnded& event) {
  const bool initiated = event.role == gossip::Role::kInitiator;
  return (initiated ? event.exchange.responder : event.exchange.initiator).id;
}

void ExchangeLog::note(Instant now, const gossip::ExchangeEnded& event) {
  if (recent_.size() == kRecentMax) recent_.pop_front();
  recent_.push_back({now, event});
  ++outcomes_[static_cast<std::size_t>(event.outcome)];
  const PeerId partner = partner_of(event);
  if (partners_.size() == kPartnersMax && !partners_.contains(partner)) {
    partners_.erase(std::min_element(partners_.begin(), partners_.end(),
                                     [](const auto& left, const auto& right) {
                                       return left.second.last_end < right.second.last_end;
                                     }));
  }
  WithPartner& row = partners_[partner];
  row.last_end = now;
  if (event.stripes_applied > 0) {
    row.clip_factor += kNewest * (static_cast<double>(event.clip_factor) - row.clip_factor);
  }
  switch (event.outcome) {
    case Outcome::kCompleted:
      ++row.completed;
      row.last_completed = now;
      break;
    case Outcome::kDeclined: ++row.declined; break;
    default: ++row.failed;
  }
}

const ExchangeLog::WithPartner* ExchangeLog::with(PeerId partner) const {
  const auto found = partners_.find(partner);
  return found == partners_.end() ? nullptr : &found->second;
}

nlohmann::json ExchangeLog::by_outcome() const {
  nlohmann::json counts = nlohmann::json::object();
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    if (outcomes_[i] > 0) counts[std::string(to_string(static_cast<Outcome>(i)))] = outcomes_[i];
  }
  return counts;
}

nlohmann::json ExchangeLog::recent(Instant now) const {
  nlohmann::json list = nlohmann::json::array();
  for (auto row = recent_.rbegin(); row != recent_.rend(); ++row) {
    nlohmann::json told{{"seconds_ago", to_seconds(now - row->at)},
                        {"partner", gossip::to_string(partner_of(row->event))},
                        {"initiated", row->event.role == gossip::Role::kInitiator},
                        {"fragment", row->event.fragment.value},
                        {"stripes", row->event.stripes_applied},
                        {"outcome", to_string(row->event.outcome)}};
    if (row->event.clip_factor < 1) told["clip_factor"] = row->event.clip_factor;
    list.push_back(std::move(told));
  }
  return list;
}

}  // namespace starling::peer

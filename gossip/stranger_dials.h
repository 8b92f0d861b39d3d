// StrangerDials: how many peers of which it only heard this peer dials at one host. Whoever was let
// in can tell of as many as it likes, at any address it likes; by their number alone a swarm would
// keep knocking where one of its members points. So of each host kOpenMax greetings are out at a
// time. One that was answered makes room at once, another after kKept: then its line is long
// closed.
//
// Of a machine with many real peers all are met as fast as they answer. Remembers kHostsMax hosts;
// beyond them the one longest not dialled is forgotten. No clock: `now` is an argument and never
// goes back. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"

namespace starling::gossip {

class StrangerDials {
 public:
  static constexpr std::size_t kOpenMax = 16;
  static constexpr std::size_t kHostsMax = 512;
  static constexpr Duration kKept = std::chrono::seconds(60);

  // False: not now.
  bool take(Instant now, std::string_view host) {
    auto found = open_.find(host);
    if (found == open_.end()) {
      if (open_.size() >= kHostsMax) forget(now);
      found = open_.emplace(host, std::deque<Instant>{}).first;
    }
    std::deque<Instant>& since = found->second;
    while (!since.empty() && now - since.front() >= kKept) since.pop_front();
    if (since.size() >= kOpenMax) return false;
    since.push_back(now);
    return true;
  }
  void answered(std::string_view host) {
    const auto found = open_.find(host);
    if (found == open_.end()) return;
    found->second.pop_front();
    if (found->second.empty()) open_.erase(found);
  }

 private:
  // None is empty.
  void forget(Instant now) {
    std::erase_if(open_, [now](const auto& item) { return now - item.second.back() >= kKept; });
    if (open_.size() < kHostsMax) return;
    open_.erase(
        std::min_element(open_.begin(), open_.end(), [](const auto& one, const auto& other) {
          return one.second.back() < other.second.back();
        }));
  }

  std::map<std::string, std::deque<Instant>, std::less<>> open_;  // by host: oldest first
};

}  // namespace starling::gossip

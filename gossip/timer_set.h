// TimerSet<Key>: at most one due time per key, and the earliest of them. No clock: `now` is an
// argument. Each operation is logarithmic in the number of keys. Thread: one owner.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/time.h"

namespace starling::gossip {

template <class Key>
class TimerSet {
 public:
  // Replaces what was set for the key.
  void set(const Key& key, Instant due) {
    clear(key);
    due_.emplace(key, due);
    order_.emplace(due, key);
  }
  void clear(const Key& key) {
    const auto found = due_.find(key);
    if (found == due_.end()) return;
    order_.erase({found->second, key});
    due_.erase(found);
  }
  // Takes one key that is due, earliest first.
  std::optional<Key> pop_due(Instant now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    const Key key = order_.begin()->second;
    clear(key);
    return key;
  }
  std::optional<Instant> next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }
  // Everything later: time in which this process did not run is nobody's silence.
  void shift(Duration by) {
    order_.clear();
    for (auto& [key, due] : due_) {
      due += by;
      order_.emplace(due, key);
    }
  }
  bool contains(const Key& key) const { return due_.count(key) != 0; }
  std::size_t size() const { return due_.size(); }

 private:
  std::map<Key, Instant> due_;
  std::set<std::pair<Instant, Key>> order_;
};

}  // namespace starling::gossip

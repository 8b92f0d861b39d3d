// LineTime: when a line of a virtual network is taken. It carries one message at a time and is
// never idle while one waits: a message that comes to it earlier than one it was promised to before
// takes what is free until then, in pieces if need be. Thread: one owner.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/time.h"

namespace starling::peer {

class LineTime {
 public:
  struct Taken {
    Instant begin, end;  // of the first piece and of the last
  };
  // The line for `length`, from `from` on. What was before `now` is forgotten; `now` never goes
  // back and is not after `from`.
  Taken take(Instant now, Instant from, Duration length);

 private:
  std::map<Instant, Instant> busy_;  // from, until; they do not touch
};

inline LineTime::Taken LineTime::take(Instant now, Instant from, Duration length) {
  while (!busy_.empty() && busy_.begin()->second <= now) busy_.erase(busy_.begin());
  auto next = busy_.upper_bound(from);
  auto first = next;  // of those that touch what is taken here
  Instant at = from;
  if (next != busy_.begin() && std::prev(next)->second >= from) {
    first = std::prev(next);
    at = first->second;
  }
  std::optional<Instant> begin;
  Duration left = length;
  while (next != busy_.end() && next->first - at < left) {
    if (next->first > at && !begin) begin = at;
    left -= next->first - at;
    at = next->second;
    ++next;
  }
  const Taken taken{begin.value_or(at), at + left};
  Instant until = taken.end;
  if (next != busy_.end() && next->first == until) {
    until = next->second;
    ++next;
  }
  const Instant since = first == next ? taken.begin : std::min(first->first, taken.begin);
  busy_.erase(first, next);
  if (until > since) busy_.emplace(since, until);
  return taken;
}

}  // namespace starling::peer

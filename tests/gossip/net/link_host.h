// Host: a link as its driver runs it, for tests of what others do to one.
#pragma once

#include <unistd.h>

#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "gossip/net/link.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

struct Host {
  ZmqLink link;
  Instant watch_at;
  std::map<PeerId, int> heard;

  explicit Host(const LinkConfig& config) : link(ZmqLink::open(config).value()) {}
  explicit Host(const Identity& identity) : Host(link_config(identity)) {}

  void serve(bool bulk_too = true) {
    const Instant now = steady_now();
    link.flush(now);
    while (const auto arrival = link.try_receive(now, bulk_too)) ++heard[arrival->from];
    if (now < watch_at) return;
    link.watch(now);
    watch_at = now + ZmqLink::kWatchEvery;
  }
  const CallerStats& callers() const { return link.stats().callers; }
};

template <class Predicate>
bool serve_until(std::initializer_list<Host*> hosts, Predicate&& done, double seconds = 10) {
  return eventually(
      [&] {
        for (Host* host : hosts) host->serve();
        return done();
      },
      seconds);
}

inline std::string text_of(const std::vector<std::byte>& frame) {
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

inline double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(::getpagesize()) / (1 << 20);
}

}  // namespace starling::gossip

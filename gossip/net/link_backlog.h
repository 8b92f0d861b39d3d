// Backlog: whoever waits before our listeners while this process has no descriptor left. ZeroMQ's
// threads are told that somebody waits, cannot let him in, and try again at once, without end. So
// one descriptor is kept in reserve. When there is no other it serves to let those in who wait, and
// to hang up, and the kernel drops whatever knocks after them, until there are descriptors again.
// Peers dial again by themselves.
//
// While the reserve is free ZeroMQ may be quicker: whom it lets in meanwhile Callers ends.
// Included by link*.cpp only. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>

namespace starling::gossip {

class Backlog {
 public:
  Backlog();
  ~Backlog();
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  void add(int listener);  // its descriptor, as ZeroMQ's monitor tells
  // How many were hung up on. Some ten times a second.
  std::uint64_t look();
  bool is_shut() const { return shut_; }  // no descriptor is left for anybody

 private:
  bool has_room();
  void shut(bool shut);
  std::uint64_t hang_up_on_all() const;

  std::map<int, std::uint64_t> listeners_;  // the kernel's number of each
  int reserve_;                             // negative: somebody has taken it
  bool shut_ = false;
  std::uint64_t times_ = 0;
};

}  // namespace starling::gossip

// Intake: the bytes that ZeroMQ has taken from a connection, beside the frames that have come out
// of it. What is between the two it keeps, and a message may be whole or never will be: only what
// was there while nothing whole waited is told from the rest. Included by link*.cpp only. Thread:
// one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "gossip/net/link_sockets.h"

namespace starling::gossip {

class Intake {
 public:
  void note_frame(std::size_t bytes) {
    came_out_ += wire_bytes(bytes);
    explained_ += wire_bytes(bytes);
    heard_ = true;
  }
  // Now and then. `taken`: bytes so far (bytes_taken()). `read_empty`: since the last look there
  // was a moment at which nothing whole waited.
  void look(std::uint64_t taken, bool read_empty) {
    const bool heard = std::exchange(heard_, false);
    unfinished_ = read_empty && !heard ? beyond(taken_, came_out_) : 0;
    if (read_empty && heard) {
      never_out_ = std::min(never_out_, beyond(taken, explained_));
      came_out_ = taken;
    }
    taken_ = taken;
  }

  // Taken and not come out, as of the last look; and of that, what had been taken by the look
  // before and is not whole.
  std::uint64_t held() const { return beyond(taken_, came_out_); }
  std::uint64_t unfinished() const { return unfinished_; }
  // What came before the first frame and is more than a handshake: ZeroMQ keeps what a caller tells
  // of itself for as long as the connection lasts.
  std::uint64_t told_of_itself() const {
    return never_out_ == kUnknown ? 0 : beyond(never_out_, kHandshakeMax);
  }

 private:
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kHandshakeMax = 4096;
  static std::uint64_t beyond(std::uint64_t all, std::uint64_t part) {
    return all > part ? all - part : 0;
  }

  std::uint64_t taken_ = 0, came_out_ = 0, unfinished_ = 0;
  std::uint64_t explained_ = 0;         // as came_out_, which forgets what can't be explained
  std::uint64_t never_out_ = kUnknown;  // the least that frames have not explained
  bool heard_ = false;                  // since the last look
};

}  // namespace starling::gossip

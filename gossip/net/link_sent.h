// SentFrames: payloads that were handed to ZeroMQ and have not left it. They keep their slots, and
// only the reader at the other end decides for how long: whom they are for, and since when, is
// known here, so that one who reads slowly can be bounded and, in the end, left.
//
// Included by link*.cpp only. Thread: one owner; a frame's end is told by whichever thread ZeroMQ
// frees it on. Must outlive the ZeroMQ context.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>
#include <zmq.hpp>

#include "base/metrics.h"
#include "base/slot_pool.h"
#include "base/time.h"
#include "gossip/net/link.h"

namespace starling::gossip {

class SentFrames {
 public:
  // The message that ZeroMQ is given.
  zmq::message_t add(Instant now, PeerId to, FrozenSlot frame, const Message& head);
  HeldPayloads of(PeerId to);       // what is held now
  std::vector<HeldPayloads> all();  // of everybody of whom anything is

 private:
  struct Frame {
    FrozenSlot slot;
    Instant since;
    std::size_t bytes = 0;
    bool is_delta = false, is_piece = false;
    Flag left;  // the slot is home; nobody touches this any more
  };
  using Frames = std::vector<std::unique_ptr<Frame>>;  // oldest first

  static void drop_sent_slot(void* bytes, void* frame);
  static HeldPayloads count(PeerId to, Frames& frames);

  std::map<PeerId, Frames> frames_;
};

}  // namespace starling::gossip

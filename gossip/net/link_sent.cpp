#include "gossip/net/link_sent.h"

#include <utility>

namespace starling::gossip {

// Called by ZeroMQ's I/O thread when the last byte has left. The hand-over goes through the
// library's own queues, which thread sanitizer does not see: tests/tsan.supp names this function.
void SentFrames::drop_sent_slot(void*, void* frame) {
  auto* const sent = static_cast<Frame*>(frame);
  sent->slot = {};
  sent->left.raise();
}

zmq::message_t SentFrames::add(Instant now, PeerId to, FrozenSlot frame, const Message& head) {
  auto sent = std::make_unique<Frame>();
  const auto bytes = frame.bytes();
  sent->slot = std::move(frame);
  sent->since = now;
  sent->bytes = bytes.size();
  sent->is_delta = std::holds_alternative<Delta>(head);
  sent->is_piece = std::holds_alternative<Piece>(head);
  Frame* const raw = sent.get();
  Frames& frames = frames_[to];
  static_cast<void>(count(to, frames));  // so that those that have left do not gather
  frames.push_back(std::move(sent));
  // ZeroMQ wants a mutable pointer; it only reads.
  return zmq::message_t(const_cast<std::byte*>(bytes.data()), bytes.size(), drop_sent_slot, raw);
}

// Over several connections they leave in any order.
HeldPayloads SentFrames::count(PeerId to, Frames& frames) {
  std::erase_if(frames, [](const auto& frame) { return frame->left.raised(); });
  HeldPayloads held{.to = to};
  if (!frames.empty()) held.since = frames.front()->since;
  for (const auto& frame : frames) {
    ++held.frames;
    held.deltas += frame->is_delta ? 1 : 0;
    held.pieces += frame->is_piece ? 1 : 0;
    held.bytes += frame->bytes;
  }
  return held;
}

HeldPayloads SentFrames::of(PeerId to) {
  const auto found = frames_.find(to);
  if (found == frames_.end()) return {.to = to};
  const HeldPayloads held = count(to, found->second);
  if (held.frames == 0) frames_.erase(found);
  return held;
}

std::vector<HeldPayloads> SentFrames::all() {
  std::vector<HeldPayloads> all;
  for (auto& [to, frames] : frames_) all.push_back(count(to, frames));
  std::erase_if(all, [](const HeldPayloads& held) { return held.frames == 0; });
  std::erase_if(frames_, [](const auto& item) { return item.second.empty(); });
  return all;
}

}  // namespace starling::gossip

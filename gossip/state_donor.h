// StateDonor: gives newcomers the pieces of one checkpoint. Offers it to whoever asks, serves at
// most serve_max of those that then ask for pieces, one piece at a time, and yields to exchanges:
// while one is open only one piece is under way, and after it has arrived the line is left to the
// exchange for as long as the piece has taken; so at most half of what could be sent is pieces.
//
// A session begins with the first request for a piece and ends after kSessionIdle of silence, when
// the newcomer says so, or when it is lost. The snapshot stays the same while there are sessions,
// however many checkpoints are written meanwhile. Limits: serve_max sessions, kQueueMax requests
// in each; further ones are counted and ignored. Thread: one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "gossip/core_context.h"

namespace starling::gossip {

class StateDonor {
 public:
  static constexpr Duration kSessionIdle = std::chrono::seconds(5);
  static constexpr std::size_t kQueueMax = 16;

  explicit StateDonor(CoreContext& context);

  void on_request(Instant now, PeerId from, bool joining);
  void on_piece_request(Instant now, PeerId from, const PieceRequest& request);
  void on_finished(PeerId from);
  // --- answers and news of the keeper of states ---
  void on_checkpoint() { outdated_ = true; }  // a newer one can be served
  void on_snapshot(Instant now, const std::optional<StateOffer>& offer);
  void on_piece_read(Instant now, const ReadPiece& order, PieceRead outcome);

  void on_peer_lost(PeerId peer) { on_finished(peer); }
  bool involves(PeerId peer) const { return sessions_.count(peer) != 0; }
  void on_deadline(Instant now);
  void shift(Duration by);
  std::optional<Instant> next_deadline() const;
  std::size_t sessions() const { return sessions_.size(); }

 private:
  struct Session {
    std::deque<std::uint32_t> queue;  // pieces asked for, oldest first
    Instant heard;
    Instant sent_at;                    // of the newest piece
    std::uint32_t received_before = 0;  // what the newcomer had counted when the session began
    std::uint32_t sent = 0, received = 0;
  };

  void decline(PeerId to, StateReason reason, Duration retry_after);
  bool has_room(PeerId for_peer) const;
  Session* open_session(Instant now, PeerId from, const PieceRequest& request);
  bool is_piece(std::uint32_t piece) const;
  std::optional<Instant> arrives_by() const;
  void drop_snapshot();
  void pump(Instant now);

  CoreContext& context_;
  const std::uint32_t pieces_;
  std::optional<StateOffer> offer_;
  bool outdated_ = true;  // the keeper may have something newer than offer_
  Instant prepared_at_;
  bool preparing_ = false;
  bool reading_ = false;
  Instant failed_until_{};  // the keeper had nothing
  Instant next_read_{};     // not before, while exchanges are open
  Duration piece_time_;     // of the last piece that was said to have arrived
  std::map<PeerId, Session> sessions_;
  PeerId last_served_;
};

}  // namespace starling::gossip

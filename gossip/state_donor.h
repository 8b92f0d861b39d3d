// StateDonor: gives newcomers the pieces of one checkpoint. Offers it to whoever asks, serves at
// most serve_max of those that then ask for pieces, one piece at a time, and yields to exchanges:
// while one is open only one piece is under way, and after it has arrived the line is left to the
// exchange for as long as the piece has taken; so at most half of what could be sent is pieces.
//
// A session begins with the first request for a piece and ends when the newcomer says so, when it
// is lost, when this peer's owner allows no traffic, or without a request for another piece: after
// kSessionIdle, or while pieces are under way kPieceMax or, up to kTurn, as long as one may take by
// what payloads have taken, beside an exchange and the pieces of the other sessions. A piece asked
// for again was lost: it is given again, which keeps no session alive. While the day's bytes are to
// last (CoreContext::paced) nobody begins, and whoever has begun is given each piece once. Where
// others wait, a session ends after kTurn, and whoever had the place rests for kRest.
//
// The snapshot stays the same while there are sessions, however many checkpoints are written
// meanwhile; but once it is older than kSnapshotKept and kPieceKept for each piece that a newcomer
// takes, nobody else begins with it, and nobody with any while a newer one is prepared. Limits:
// serve_max sessions, kQueueMax requests in each, kRestsMax who rest; further requests are counted
// and ignored. Thread: one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "gossip/core_context.h"

namespace starling::gossip {

class StateDonor {
 public:
  static constexpr Duration kSessionIdle = std::chrono::seconds(5);
  // A piece of 1 MiB takes 34 s where four donors share 1 Mbit/s, twice that beside an exchange.
  static constexpr Duration kPieceMax = std::chrono::seconds(70);
  static constexpr Duration kTurn = std::chrono::minutes(10);
  static constexpr Duration kRest = std::chrono::seconds(30);
  static constexpr Duration kSnapshotKept = std::chrono::minutes(10);
  static constexpr Duration kPieceKept = std::chrono::seconds(20);
  static constexpr std::size_t kQueueMax = 16;
  static constexpr std::size_t kRestsMax = 64;

  explicit StateDonor(CoreContext& context);

  void on_request(Instant now, PeerId from, bool joining);
  void on_piece_request(Instant now, PeerId from, const PieceRequest& request);
  void on_finished(Instant now, PeerId from);
  void on_turned_down(Instant now, PeerId from);  // says that a piece was wrong
  // --- answers and news of the keeper of states ---
  void on_checkpoint() { outdated_ = true; }  // a newer one can be served
  void on_snapshot(Instant now, const std::optional<StateOffer>& offer);
  void on_piece_read(Instant now, const ReadPiece& order, PieceRead outcome);

  void on_peer_lost(Instant now, PeerId peer) { on_finished(now, peer); }
  void on_resting(Instant now);  // the owner allows no traffic: newcomers are to ask others
  bool involves(PeerId peer) const { return sessions_.count(peer) != 0; }
  void on_deadline(Instant now);
  void shift(Duration by);
  std::optional<Instant> next_deadline() const;
  std::size_t sessions() const { return sessions_.size(); }

 private:
  struct Session {
    std::uint64_t number = 0;         // of all there were
    std::deque<std::uint32_t> queue;  // pieces asked for, oldest first
    std::vector<bool> asked;          // of all pieces, the manifest's parts last
    Instant begun;
    Instant progress_at;                // another piece was asked for
    Instant sent_at;                    // the newest piece
    Instant not_before;                 // there was no room for the next one
    Duration patience = kPieceMax;      // with pieces under way
    std::uint32_t received_before = 0;  // what the newcomer had counted when the session began
    std::uint32_t sent = 0, received = 0;
  };

  void decline(PeerId to, StateReason reason, Duration retry_after);
  void decline_busy(Instant now, PeerId to);
  bool has_room(Instant now, PeerId for_peer) const;
  bool is_kept(Instant now) const;
  Session* open_session(Instant now, PeerId from, const PieceRequest& request);
  static Instant ends_at(const Session& session);
  void end_session(Instant now, PeerId peer);
  void end_turns(Instant now);
  bool is_piece(std::uint32_t piece) const;
  std::size_t index_of(std::uint32_t piece) const;
  std::optional<Instant> arrives_by() const;
  void drop_snapshot(Instant now);
  void end_all(Instant now, StateReason reason, Duration retry_after);
  bool yields() const;  // exchanges go first
  void pump(Instant now);

  CoreContext& context_;
  const std::uint32_t pieces_;
  std::optional<StateOffer> offer_;
  bool outdated_ = true;  // the keeper may have something newer than offer_
  Instant prepared_at_;
  bool preparing_ = false;
  std::uint64_t sessions_begun_ = 0;
  std::optional<std::uint64_t> reading_;  // a piece, for the session of this number
  Instant failed_until_{};                // the keeper had nothing
  Instant next_read_{};                   // not before, while exchanges are open
  Duration piece_time_;                   // as the last pieces took that were said to have arrived
  std::map<PeerId, Session> sessions_;
  std::map<PeerId, Instant> rests_;   // who had a place that others wait for, until when
  std::optional<Instant> wanted_at_;  // when somebody was last turned away for want of room
  PeerId last_served_;
};

}  // namespace starling::gossip

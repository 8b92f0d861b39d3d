#include "gossip/state_donor.h"

#include <algorithm>
#include <numeric>

namespace starling::gossip {
namespace {

constexpr Duration kNeverAgain{};  // of retry_after: the newcomer decides
constexpr Duration kPrepareTime = std::chrono::milliseconds(500);
constexpr Duration kRetry = std::chrono::seconds(3);
constexpr Duration kFreshFor = std::chrono::seconds(10);
constexpr Duration kPieceTimeFirst = std::chrono::milliseconds(200);
// The newcomer's last requests acknowledge nothing: so many times the usual, and it has arrived.
constexpr int kArrivalPatience = 4;
constexpr Duration kNoRoomPause = std::chrono::milliseconds(10);

}  // namespace

StateDonor::StateDonor(CoreContext& context)
    : context_(context),
      pieces_(kStateSections * std::accumulate(context.stripes.begin(), context.stripes.end(), 0U)),
      piece_time_(kPieceTimeFirst) {}

void StateDonor::on_request(Instant now, PeerId from, bool joining) {
  if (context_.closing) return decline(from, StateReason::kClosing, kNeverAgain);
  if (context_.config.state.serve_max == 0) {
    return decline(from, StateReason::kUnwilling, kNeverAgain);
  }
  if (joining || context_.newcomer.weight() == 0) {
    return decline(from, StateReason::kNewcomer, kRetry);
  }
  if (!has_room(from)) return decline(from, StateReason::kBusy, kRetry);
  // Where checkpoints come faster than requests, the newest would never be ready in time.
  const bool fresh = !outdated_ || now - prepared_at_ < kFreshFor;
  const bool current = offer_ && (fresh || !sessions_.empty());
  if (current) return context_.send(from, *offer_);
  if (now < failed_until_) return decline(from, StateReason::kNoSnapshot, kRetry);
  if (!preparing_) context_.emit(StateOrder(PrepareSnapshot{}));
  preparing_ = true;
  decline(from, StateReason::kPreparing, kPrepareTime);
}

void StateDonor::on_snapshot(Instant now, const std::optional<StateOffer>& offer) {
  preparing_ = false;
  if (offer) outdated_ = false;
  if (!sessions_.empty()) return;  // begun meanwhile with the one before
  offer_ = offer;
  prepared_at_ = now;
  if (!offer) failed_until_ = now + kRetry;
}

void StateDonor::on_piece_request(Instant now, PeerId from, const PieceRequest& request) {
  if (context_.closing) return decline(from, StateReason::kClosing, kNeverAgain);
  if (!offer_ || offer_->snapshot != request.snapshot) {
    return decline(from, StateReason::kGone, kPrepareTime);
  }
  if (!is_piece(request.piece)) return context_.refuse_message();
  Session* session = open_session(now, from, request);
  if (session == nullptr) return decline(from, StateReason::kBusy, kRetry);
  session->heard = now;
  // A count of the session before, or of nothing, acknowledges nothing.
  const std::uint32_t received = request.received - session->received_before;
  if (received > session->received && received <= session->sent) {
    session->received = received;
    piece_time_ = now - session->sent_at;
    next_read_ = now + piece_time_;
  }
  const auto& queue = session->queue;
  const bool known = std::find(queue.begin(), queue.end(), request.piece) != queue.end();
  if (known || queue.size() >= kQueueMax) return context_.refuse_message();
  session->queue.push_back(request.piece);
  pump(now);
}

void StateDonor::on_finished(PeerId from) {
  if (sessions_.erase(from) > 0) context_.emit(JoinEvent{JoinStep::kServed, from, {}});
}

void StateDonor::on_piece_read(Instant now, const ReadPiece& order, PieceRead outcome) {
  reading_ = false;
  const auto session = sessions_.find(order.to);
  const bool wanted = session != sessions_.end() && offer_ && offer_->snapshot == order.snapshot;
  if (wanted && outcome == PieceRead::kRead) {
    context_.send_payload(order.to, Piece{order.snapshot, order.piece});
    session->second.sent_at = now;
  } else if (wanted && outcome == PieceRead::kNoRoom) {
    --session->second.sent;
    session->second.queue.push_front(order.piece);
    next_read_ = now + kNoRoomPause;
    return;  // a deadline comes then
  } else if (wanted) {
    drop_snapshot();
  }
  pump(now);
}

void StateDonor::on_deadline(Instant now) {
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    const PeerId peer = (session++)->first;
    if (now - sessions_.at(peer).heard >= kSessionIdle) on_finished(peer);
  }
  pump(now);
}

void StateDonor::shift(Duration by) {
  for (auto& [peer, session] : sessions_) session.heard += by;
}

std::optional<Instant> StateDonor::next_deadline() const {
  std::optional<Instant> next;
  bool queued = false;
  for (const auto& [peer, session] : sessions_) {
    queued = queued || !session.queue.empty();
    const Instant idle = session.heard + kSessionIdle;
    next = next ? std::min(*next, idle) : idle;
  }
  if (!queued || reading_) return next;
  return std::min(*next, std::max(next_read_, arrives_by().value_or(next_read_)));
}

void StateDonor::decline(PeerId to, StateReason reason, Duration retry_after) {
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after);
  context_.send(to, StateDeclined{reason, static_cast<std::uint32_t>(wait.count())});
}

bool StateDonor::has_room(PeerId for_peer) const {
  return sessions_.count(for_peer) > 0 || sessions_.size() < context_.config.state.serve_max;
}

// Null: there is no room.
StateDonor::Session* StateDonor::open_session(Instant now, PeerId from,
                                              const PieceRequest& request) {
  if (!has_room(from)) return nullptr;
  const auto [session, is_new] = sessions_.try_emplace(from);
  if (is_new) {
    session->second.heard = now;
    session->second.received_before = request.received;
    context_.emit(JoinEvent{JoinStep::kServing, from, {}});
  }
  return &session->second;
}

bool StateDonor::is_piece(std::uint32_t piece) const {
  if (piece < pieces_) return true;
  return piece >= kManifestPiece && piece - kManifestPiece < offer_->manifest.size();
}

// When the newest piece under way will have arrived, if the donor hears nothing of it before.
std::optional<Instant> StateDonor::arrives_by() const {
  std::optional<Instant> latest;
  for (const auto& [peer, session] : sessions_) {
    if (session.sent == session.received) continue;
    const Instant arrival = session.sent_at + kArrivalPatience * piece_time_;
    latest = latest ? std::max(*latest, arrival) : arrival;
  }
  return latest;
}

void StateDonor::drop_snapshot() {
  offer_.reset();
  outdated_ = true;
  while (!sessions_.empty()) {
    const PeerId peer = sessions_.begin()->first;
    decline(peer, StateReason::kGone, kPrepareTime);
    on_finished(peer);
  }
}

// One more piece, of the next session in turn, if now is the time for it.
void StateDonor::pump(Instant now) {
  if (reading_) return;
  const bool yields = context_.leases.count() > 0;
  if (yields && (now < next_read_ || now < arrives_by().value_or(now))) return;
  auto session = sessions_.upper_bound(last_served_);
  for (std::size_t tried = 0; tried < sessions_.size(); ++tried) {
    if (session == sessions_.end()) session = sessions_.begin();
    if (!session->second.queue.empty()) break;
    ++session;
  }
  if (session == sessions_.end()) session = sessions_.begin();
  if (session == sessions_.end() || session->second.queue.empty()) return;
  reading_ = true;
  last_served_ = session->first;
  ++session->second.sent;
  session->second.sent_at = now;
  context_.emit(
      StateOrder(ReadPiece{session->first, offer_->snapshot, session->second.queue.front()}));
  session->second.queue.pop_front();
}

}  // namespace starling::gossip

#include "gossip/state_donor.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace starling::gossip {
namespace {

constexpr Duration kNeverAgain{};  // of retry_after: the newcomer decides
constexpr Duration kPrepareTime = std::chrono::milliseconds(500);
constexpr Duration kRetry = std::chrono::seconds(3);
constexpr Duration kFreshFor = std::chrono::seconds(10);
constexpr Duration kPieceTimeFirst = std::chrono::milliseconds(200);
// The newcomer's last requests acknowledge nothing: so many times the usual, and it has arrived.
constexpr int kArrivalPatience = 4;
// Nor is it waited for longer: several cuts in a row look like a thin line, and whoever has asked
// for its last pieces has nothing left to tell otherwise by. A piece takes as long on 0.8 Mbit/s.
constexpr Duration kArrivalMax = std::chrono::seconds(10);
// One piece that a cut held up says little of the next ones; a thin line goes on to say it.
constexpr int kPieceTimeGrowth = 4;
constexpr Duration kNoRoomPause = std::chrono::milliseconds(10);
// Whoever was turned away has asked again by then, or gone elsewhere.
constexpr Duration kWaits = 3 * kRetry;

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
  // Where the day's bytes are to last, only those who have begun go on.
  if (context_.resting || context_.paced) return decline(from, StateReason::kBusy, kRest);
  on_finished(now, from);  // it begins anew: what was under way may be lost
  if (!has_room(now, from)) return decline_busy(now, from);
  // Where checkpoints come faster than requests, the newest would never be ready in time.
  const bool fresh = !outdated_ || now - prepared_at_ < kFreshFor;
  if (offer_ && (fresh || is_kept(now))) return context_.send(from, *offer_);
  if (!sessions_.empty()) return decline_busy(now, from);
  if (now < failed_until_) return decline(from, StateReason::kNoSnapshot, kRetry);
  if (!preparing_) context_.emit(StateOrder(PrepareSnapshot{}));
  preparing_ = true;
  decline(from, StateReason::kPreparing, kPrepareTime);
}

void StateDonor::on_snapshot(Instant now, const std::optional<StateOffer>& offer) {
  STARLING_ASSERT(sessions_.empty());
  preparing_ = false;
  if (offer) outdated_ = false;
  offer_ = offer;
  if (offer_) {
    // Whoever began with a liar's state counts on from the most that may be said.
    offer_->step = std::min(offer_->step, kStepsOfStateMax);
    offer_->tokens = std::min(offer_->tokens, kTokensOfProcessMax);
  }
  prepared_at_ = now;
  if (!offer) failed_until_ = now + kRetry;
}

void StateDonor::on_piece_request(Instant now, PeerId from, const PieceRequest& request) {
  if (context_.closing) return decline(from, StateReason::kClosing, kNeverAgain);
  // The keeper has let go of what was offered before.
  if (preparing_) return decline(from, StateReason::kPreparing, kPrepareTime);
  if (!offer_ || offer_->snapshot != request.snapshot) {
    return decline(from, StateReason::kGone, kPrepareTime);
  }
  if (!is_piece(request.piece)) return context_.refuse_message();
  const bool begins = !involves(from);
  if (context_.resting || (context_.paced && begins)) {
    return decline(from, StateReason::kBusy, kRest);
  }
  Session* session = open_session(now, from, request);
  if (session == nullptr) return decline_busy(now, from);
  // A count of the session before, or of nothing, acknowledges nothing.
  const std::uint32_t received = request.received - session->received_before;
  auto& queue = session->queue;
  if (received > session->received && received <= session->sent) {
    session->received = received;
    // Whoever had been given all it wanted asks when it wants more, not when a piece arrives.
    const bool hurries = !queue.empty() || received < session->sent;
    if (hurries) {
      const Duration taken = now - session->sent_at;
      piece_time_ = std::min(taken, kPieceTimeGrowth * std::max(piece_time_, kPieceTimeFirst));
      next_read_ = now + std::min<Duration>(taken, kArrivalMax);
    }
  }
  std::vector<bool>& asked = session->asked;
  const std::size_t index = index_of(request.piece);
  const bool waits = std::find(queue.begin(), queue.end(), request.piece) != queue.end();
  const bool again = asked[index] && context_.paced;
  if (waits || again || queue.size() >= kQueueMax) {
    context_.refuse_message();
    if (now >= ends_at(*session)) end_session(now, from);  // what it acknowledged was the last
    return pump(now);  // and it may have been what others waited for
  }
  // What is asked for again was lost on the way; it is given, and does not count as getting on.
  if (!asked[index]) session->progress_at = now;
  asked[index] = true;
  queue.push_back(request.piece);
  pump(now);
}

void StateDonor::on_finished(Instant now, PeerId from) {
  if (!involves(from)) return;
  end_session(now, from);
  pump(now);  // the line may have been its piece's
}

void StateDonor::on_turned_down(Instant now, PeerId from) {
  if (sessions_.count(from) == 0) return context_.refuse_message();
  context_.note_rejection(from, RejectReason::kWrongPiece);
  on_finished(now, from);
}

void StateDonor::on_resting(Instant now) { end_all(now, StateReason::kBusy, kRest); }

void StateDonor::end_all(Instant now, StateReason reason, Duration retry_after) {
  while (!sessions_.empty()) {
    const PeerId peer = sessions_.begin()->first;
    decline(peer, reason, retry_after);
    end_session(now, peer);
  }
}

void StateDonor::on_piece_read(Instant now, const ReadPiece& order, PieceRead outcome) {
  const auto reader = std::exchange(reading_, std::nullopt);
  const auto session = sessions_.find(order.to);
  const bool offered = offer_ && offer_->snapshot == order.snapshot;
  const bool wanted = offered && session != sessions_.end() && session->second.number == reader;
  if (offered && outcome == PieceRead::kFailed) {
    drop_snapshot(now);
  } else if (wanted && outcome == PieceRead::kRead) {
    context_.send_payload(order.to, Piece{order.snapshot, order.piece});
    session->second.sent_at = now;
  } else if (wanted && outcome == PieceRead::kNoRoom) {
    --session->second.sent;
    session->second.queue.push_front(order.piece);
    session->second.not_before = now + kNoRoomPause;
  }
  pump(now);
}

void StateDonor::on_deadline(Instant now) {
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    const PeerId peer = (session++)->first;
    if (now >= ends_at(sessions_.at(peer))) end_session(now, peer);
  }
  end_turns(now);
  pump(now);
}

// Whoever has had a place for long makes room for one that waits, and goes on later.
void StateDonor::end_turns(Instant now) {
  std::erase_if(rests_, [now](const auto& rest) { return now >= rest.second; });
  if (!wanted_at_ || now - *wanted_at_ >= kWaits || has_room(now, PeerId{})) return;
  for (const auto& [peer, session] : sessions_) {
    if (now - session.begun < kTurn) continue;
    decline(peer, StateReason::kBusy, kRest);
    return end_session(now, PeerId(peer));  // one place at a time
  }
}

void StateDonor::shift(Duration by) {
  for (auto& [peer, session] : sessions_) session.progress_at += by;
}

std::optional<Instant> StateDonor::next_deadline() const {
  std::optional<Instant> next;
  const Instant turn = std::max(next_read_, arrives_by().value_or(next_read_));
  for (const auto& [peer, session] : sessions_) {
    Instant due = ends_at(session);
    const bool waits = !session.queue.empty() && !reading_;
    if (waits) due = std::min(due, std::max(turn, session.not_before));
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

void StateDonor::decline(PeerId to, StateReason reason, Duration retry_after) {
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after);
  context_.send(to, StateDeclined{reason, static_cast<std::uint32_t>(wait.count())});
}

void StateDonor::decline_busy(Instant now, PeerId to) {
  const auto rest = rests_.find(to);
  if (rest != rests_.end() && now < rest->second) {
    return decline(to, StateReason::kBusy, rest->second - now);
  }
  wanted_at_ = now;
  decline(to, StateReason::kBusy, kRetry);
}

bool StateDonor::has_room(Instant now, PeerId for_peer) const {
  if (sessions_.count(for_peer) > 0) return true;
  const auto rest = rests_.find(for_peer);
  if (rest != rests_.end() && now < rest->second) return false;
  return sessions_.size() < context_.config.state.serve_max;
}

// The snapshot that is being served may be begun with.
bool StateDonor::is_kept(Instant now) const {
  const std::uint32_t taken = pieces_ / kStateSections * sections_count(true);  // at most
  return !sessions_.empty() && now - prepared_at_ < kSnapshotKept + taken * kPieceKept;
}

// Null: there is no room.
StateDonor::Session* StateDonor::open_session(Instant now, PeerId from,
                                              const PieceRequest& request) {
  const auto known = sessions_.find(from);
  if (known != sessions_.end()) return &known->second;
  const bool current = !outdated_ || sessions_.empty() || is_kept(now);
  if (!has_room(now, from) || !current) return nullptr;
  const auto [session, is_new] = sessions_.try_emplace(from);
  if (is_new) {
    session->second.number = ++sessions_begun_;
    session->second.asked.resize(pieces_ + offer_->manifest.size());
    session->second.begun = now;
    session->second.sent_at = now;
    session->second.progress_at = now;
    session->second.received_before = request.received;
    context_.emit(JoinEvent{JoinStep::kServing, from, {}});
  }
  return &session->second;
}

Instant StateDonor::ends_at(const Session& session) {
  const bool under_way = session.sent != session.received || !session.queue.empty();
  return session.progress_at + (under_way ? session.patience : kSessionIdle);
}

// Where somebody waits, whoever had the place comes after him.
void StateDonor::end_session(Instant now, PeerId peer) {
  sessions_.erase(peer);
  const bool wanted = wanted_at_ && now - *wanted_at_ < kWaits;
  if (wanted && rests_.size() < kRestsMax) rests_[peer] = now + kRest;
  context_.emit(JoinEvent{JoinStep::kServed, peer, {}});
}

std::size_t StateDonor::index_of(std::uint32_t piece) const {
  return piece < pieces_ ? piece : pieces_ + (piece - kManifestPiece);
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
    const Instant arrival =
        session.sent_at + std::min<Duration>(kArrivalPatience * piece_time_, kArrivalMax);
    latest = latest ? std::max(*latest, arrival) : arrival;
  }
  return latest;
}

void StateDonor::drop_snapshot(Instant now) {
  offer_.reset();
  outdated_ = true;
  end_all(now, StateReason::kGone, kPrepareTime);
}

bool StateDonor::yields() const { return context_.leases.count() > 0; }

// One more piece, of the next session in turn, if now is the time for it.
void StateDonor::pump(Instant now) {
  if (reading_) return;
  if (yields() && (now < next_read_ || now < arrives_by().value_or(now))) return;
  const auto may_have = [now](const auto& entry) {
    return !entry.second.queue.empty() && now >= entry.second.not_before;
  };
  const auto after = sessions_.upper_bound(last_served_);
  auto session = std::find_if(after, sessions_.end(), may_have);
  if (session == sessions_.end()) session = std::find_if(sessions_.begin(), after, may_have);
  if (session == sessions_.end() || !may_have(*session)) return;
  reading_ = session->second.number;
  last_served_ = session->first;
  ++session->second.sent;
  const std::size_t beside = (sessions_.size() + 1) * kPieceBytes;
  // The core would take a deadline in the past for a pause of its own.
  session->second.patience = std::max<Duration>(
      std::clamp<Duration>(context_.paces.payload_within(now, session->first, beside), kPieceMax,
                           kTurn),
      now - session->second.progress_at);
  context_.emit(
      StateOrder(ReadPiece{session->first, offer_->snapshot, session->second.queue.front()}));
  session->second.queue.pop_front();
}

}  // namespace starling::gossip

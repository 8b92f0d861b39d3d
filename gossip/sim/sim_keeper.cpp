#include "gossip/sim/sim_keeper.h"

#include <algorithm>
#include <cstdlib>

#include "base/assert.h"
#include "base/rng.h"
#include "gossip/state_sketch.h"

namespace starling::gossip {
namespace {

std::uint64_t digest_of(const StripeValues& values) {
  std::uint64_t digest = 1;
  for (const std::int64_t value : values)
    digest = mix64(digest ^ static_cast<std::uint64_t>(value));
  return digest;
}

StateDigest digest_of(const std::vector<std::uint64_t>& digests) {
  std::uint64_t sum = 2;
  for (const std::uint64_t digest : digests) sum = mix64(sum ^ digest);
  StateDigest result;
  for (std::size_t i = 0; i < sizeof sum; ++i) {
    result.bytes[i] = static_cast<std::uint8_t>(sum >> (8 * i));
  }
  return result;
}

// As peer/states/state_plan.h makes it.
void add_to(StateSketch& sketch, std::size_t stripe, const StripeValues& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t drawn = mix64(stripe * values.size() + i);
    const auto value = static_cast<float>(values[i]);
    sketch.values[drawn % kSketchSize] += (drawn >> 63) != 0 ? -value : value;
  }
}

bool could_be_weights(const StripeValues& values) {
  return std::all_of(values.begin(), values.end(),
                     [](std::int64_t value) { return std::abs(value) < kSimValueMax; });
}

}  // namespace

SimKeeper::SimKeeper(std::size_t stripes, std::uint8_t sections, SeededBug bug)
    : stripes_(stripes), sections_(sections), bug_(bug), stored_(kStateSections * stripes) {
  STARLING_ASSERT(pieces() <= kDigestsPerPart);  // a manifest of one part
}

void SimKeeper::restart() {
  orders_.clear();
  served_.reset();
  manifests_.clear();
  const std::vector<std::uint64_t> whole = held();
  for (std::size_t piece = 0; piece < pieces(); ++piece) {
    stored_[piece].from = {};
    if (whole[piece % stripes_] == 0) stored_[piece] = {};
  }
}

void SimKeeper::clear() { stored_.assign(pieces(), {}); }

std::vector<std::uint64_t> SimKeeper::held() const {
  std::vector<std::uint64_t> snapshots(stripes_);
  for (std::size_t stripe = 0; stripe < stripes_; ++stripe) {
    const auto whole = fetched(stripe);
    snapshots[stripe] = whole ? whole->snapshot : 0;
  }
  return snapshots;
}

std::optional<SimKeeper::Stripe> SimKeeper::fetched(std::size_t stripe) const {
  const Piece& weights = stored_[stripe];
  for (std::size_t piece = stripe; piece < pieces(); piece += stripes_) {
    if (!is_taken(piece)) continue;
    const Piece& other = stored_[piece];
    if (other.snapshot == 0 || other.snapshot != weights.snapshot) return std::nullopt;
    if (other.from != weights.from) return std::nullopt;
    const auto named = static_cast<std::uint64_t>(other.values.front());
    if (piece != stripe && named != weights.snapshot) return std::nullopt;
  }
  return Stripe{weights.from, weights.snapshot, weights.values};
}

std::size_t SimKeeper::pieces_stored() const {
  return static_cast<std::size_t>(std::count_if(
      stored_.begin(), stored_.end(), [](const Piece& piece) { return piece.snapshot != 0; }));
}

bool SimKeeper::is_taken(std::size_t piece) const {
  return (sections_ >> (piece / stripes_) & 1U) != 0;
}

StripeValues SimKeeper::piece_of(const Snapshot& snapshot, std::size_t piece) const {
  if (piece < stripes_) return snapshot.values[piece];
  return {static_cast<std::int64_t>(snapshot.name), static_cast<std::int64_t>(piece)};
}

void SimKeeper::submit(const StateOrder& order, const SimPayload* payload) {
  orders_.push_back({order, payload == nullptr ? std::nullopt : std::optional(*payload)});
}

PieceStored SimKeeper::store(const StorePiece& order, const SimPayload& payload) {
  if (!payload.sound) return PieceStored::kWrong;
  if (order.piece >= kManifestPiece) {
    const bool fits = payload.digests.size() == pieces();
    if (!fits || digest_of(payload.digests) != order.expected) return PieceStored::kWrong;
    manifests_[{order.from, order.snapshot}] = payload.digests;
    return PieceStored::kStored;
  }
  const auto manifest = manifests_.find({order.from, order.snapshot});
  if (manifest == manifests_.end()) return PieceStored::kUnknown;
  STARLING_ASSERT(order.piece < pieces());
  const bool right = digest_of(payload.values) == manifest->second[order.piece];
  if (!right || !payload.finite || !could_be_weights(payload.values)) return PieceStored::kWrong;
  stored_[order.piece] = {order.from, order.snapshot, payload.values};
  return PieceStored::kStored;
}

// One order at work. Every overload fills `done`.
struct SimKeeper::Execute {
  SimKeeper& keeper;
  const std::optional<SimPayload>& payload;
  const Newest& newest;
  const Faults faults;
  Done& done;

  std::vector<std::uint64_t> manifest() const {
    std::vector<std::uint64_t> digests;
    for (std::size_t piece = 0; piece < keeper.pieces(); ++piece) {
      digests.push_back(digest_of(keeper.piece_of(*keeper.served_, piece)));
    }
    return digests;
  }

  void operator()(const PrepareSnapshot&) {
    keeper.served_ = faults.disk_fails ? std::nullopt : newest();
    SnapshotReady ready;
    if (keeper.served_) {
      const Snapshot& served = *keeper.served_;
      StateOffer& offer = ready.offer.emplace();
      offer.snapshot = served.name;
      offer.step = served.step;
      offer.tokens = served.tokens;
      STARLING_ASSERT(offer.manifest.try_push(digest_of(manifest())));
      for (std::size_t stripe = 0; stripe < keeper.stripes_; ++stripe) {
        add_to(offer.sketch, stripe, served.values[stripe]);
      }
    }
    done.input = ready;
  }

  void operator()(const ReadPiece& order) {
    const bool here = keeper.served_ && keeper.served_->name == order.snapshot;
    PieceReadDone read{order, PieceRead::kRead};
    if (faults.no_room) read.outcome = PieceRead::kNoRoom;
    if (!here || faults.disk_fails) read.outcome = PieceRead::kFailed;
    if (read.outcome == PieceRead::kRead && order.piece >= kManifestPiece) {
      done.payload.digests = manifest();
    } else if (read.outcome == PieceRead::kRead) {
      const bool bug = keeper.bug_ == SeededBug::kServesTheNewest;
      if (const auto other = bug ? newest() : std::nullopt) keeper.served_->values = other->values;
      done.payload.values = keeper.piece_of(*keeper.served_, order.piece);
    }
    done.input = read;
  }

  void operator()(const StorePiece& order) {
    PieceStored outcome = PieceStored::kWrong;
    if (payload) outcome = keeper.store(order, *payload);
    if (faults.disk_fails) outcome = PieceStored::kFailed;
    done.input = PieceStoredDone{order, outcome, kPieceBytes};
  }

  void operator()(const ForgetPieces& order) {
    for (Piece& piece : keeper.stored_) {
      const bool gave = piece.from == order.from || piece.from == PeerId{};
      if (order.snapshot == 0 || (gave && piece.snapshot == order.snapshot)) piece = {};
    }
  }

  void operator()(const CheckState& order) {
    StateSketch sketch;
    for (std::size_t stripe = 0; stripe < keeper.stripes_; ++stripe) {
      add_to(sketch, stripe, keeper.stored_[stripe].values);
    }
    done.input = StateChecked{distance(sketch, order.sketch) <= order.distance_max};
  }
};

SimKeeper::Done SimKeeper::execute_next(const Newest& newest, Faults faults) {
  STARLING_ASSERT(!orders_.empty());
  const Order next = std::move(orders_.front());
  orders_.pop_front();
  Done done;
  std::visit(Execute{*this, next.payload, newest, faults, done}, next.order);
  return done;
}

}  // namespace starling::gossip

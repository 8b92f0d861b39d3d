// StateFetcher: how a newcomer gets weights and second moments before it trains.
//
//   waiting    for word of the others: nobody has trained, or we are not far behind: train at once
//   fetching   asks up to kAskedMax random peers, judges their offers, takes pieces of up to
//              donors_max of them at once; donors come and go, what is stored stays
//   checking   everything is stored: is it, as a whole, what the offers said?
//
// All sections of a stripe come from one snapshot of one donor. Different stripes may come from
// different donors while these are close (see README.md); where they are far apart, or where a
// mixture was found wrong, everything comes from one snapshot, and a donor that has given a part of
// it and makes room for others is waited for as long as their turn may take, if its own was worth
// it. A donor whose bytes are not what its manifest said, or whose weights are unlike the others',
// is not asked again. Every wait ends: one that brings no piece for `patience` ends with training
// from this peer's own initial weights. A donor that is busy, or has its checkpoint yet to write or
// to read, is worth more patience, half an hour in all: without the others' weights hours are lost.
//
// A donor that sends nothing for longer than its pace lets expect is left to rest, and its
// unfinished stripes are given by others. The pace is of bytes, and of pieces of the state alone:
// the manifest may be small, and the first bytes of a line come faster than the rest.
//
// A donor that gives, but far more slowly than another does, rests as one that is silent; so does,
// once, one that is alone and below kFloor. And the whole has an end: what is missing at
// the start may take `patience` and its time at kFloor.
//
// While the owner allows no traffic (CoreContext::resting) no piece is asked for: what is here
// stays, those under way still come, and patience begins anew afterwards.
//
// Verifying and storing is done elsewhere (StateOrder). Limits: kAskedMax donors known at once,
// kWindow pieces under way from each, stored ones included. Thread: one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gossip/core_context.h"

namespace starling::gossip {

class StateFetcher {
 public:
  static constexpr std::size_t kAskedMax = 8;
  static constexpr std::size_t kWindow = 4;
  static constexpr double kFloor = 32 * 1024;        // bytes per second
  static constexpr double kFastEnough = 8 * kFloor;  // nobody is slow that gives so much
  static constexpr double kSlower = 4;               // times as slow as another: far more slowly
  static constexpr std::uint32_t kTold = 3;          // pieces, and a donor's rate is known

  explicit StateFetcher(CoreContext& context);

  // `held`: the snapshot of every stripe that an earlier process has stored whole; else zero.
  void start(Instant now, std::span<const std::uint64_t> held);
  void on_offer(Instant now, PeerId from, const StateOffer& offer);
  void on_declined(Instant now, PeerId from, const StateDeclined& declined);
  void on_piece(Instant now, PeerId from, const Piece& piece);
  void on_piece_stored(Instant now, const PieceStoredDone& done);
  void on_checked(Instant now, bool good);
  void on_peer_lost(Instant now, PeerId peer);
  void on_deadline(Instant now);
  void shift(Duration by);

  bool active() const { return phase_ != Phase::kOff; }
  bool involves(PeerId peer) const { return active() && donors_.count(peer) != 0; }
  JoinProgress progress() const;
  std::optional<Instant> next_deadline() const;
  void assert_invariants() const;

 private:
  enum class Phase : std::uint8_t { kOff, kWaiting, kFetching, kChecking };
  enum class Standing : std::uint8_t { kAsked, kOffered, kActive, kResting, kBanned };
  struct Donor {
    Standing standing = Standing::kAsked;
    Instant until;     // asked: answer due; resting: not asked again before
    StateOffer offer;  // offered, active
    double distance = 0;
    std::uint32_t parts_asked = 0, parts_stored = 0;  // of the manifest
    std::vector<std::uint32_t> asked;                 // pieces that have not come
    std::map<std::uint32_t, Duration> storing;        // pieces that have come; how long each took
    std::vector<std::uint32_t> stripes;               // taken, not yet whole
    std::uint32_t received = 0;
    PayloadRate rate;  // of the pieces of the state that it has given
    std::uint32_t given = 0;
    Instant heard;          // last piece, or the request after none was open
    bool promised = false;  // it will serve, and not yet
  };
  struct Stripe {
    // The donor that gives or gave it. Nobody: it is free, or an earlier process stored it.
    PeerId holder;
    std::uint64_t snapshot = 0;          // that it is from, or will be
    std::uint8_t asked = 0, stored = 0;  // one bit per section
  };
  using Donors = std::map<PeerId, Donor>;
  using Giver = std::pair<PeerId, std::uint64_t>;  // a donor, and which snapshot it gives
  struct Promise {                                 // of a giver
    std::uint64_t step = 0, tokens = 0;
    double distance = 0;
  };

  void note_given(Instant now) { last_given_ = last_news_ = now; }
  bool waits_longer(Instant now);
  void ask_some(Instant now);
  void hold(Instant now);
  void judge(Instant now);
  std::vector<Donor*> judged();
  void activate(Instant now, PeerId peer, Donor& donor);
  void request(Instant now, PeerId peer, Donor& donor);
  std::optional<std::uint32_t> next_piece(PeerId peer, Donor& donor);
  void ask_again(Donor& donor, std::uint32_t piece);
  void release(Donor& donor);
  void rest(Instant now, PeerId peer, Donor& donor, Duration for_time);
  void ban(PeerId peer, Donor& donor, JoinStep why);
  void turn_down(Instant now, PeerId peer, Donor& donor, RejectReason reason);
  void forget(const Giver& giver);
  void keep_only(const std::set<Giver>& givers);
  void drop_promises();
  bool expects_offer(Instant now) const;
  void keep_what_fits(const std::vector<Giver>& agreed, bool was_one);
  void keep_what_may_fit(const Giver& only);
  bool has_begun() const;
  const Donor* begun_with() const;
  bool awaits_turn(Instant now) const;
  void doubt(Instant now);
  bool is_slow(PeerId peer, const Donor& donor) const;
  Promise promise() const;
  Duration silence_max(Instant now, PeerId peer);
  void check_if_whole();
  void end(JoinOutcome outcome);
  std::size_t count(Standing standing) const;

  CoreContext& context_;
  const std::uint8_t sections_;  // that are wanted, one bit each
  Phase phase_ = Phase::kOff;
  Instant next_tick_{};
  Instant waits_until_{};             // for news of a partner, once there is one
  Instant partner_until_{};           // for a partner
  Instant held_at_{};                 // since when nothing is asked for, if it is so
  Instant last_given_{};              // last piece stored, of the state or of a first manifest
  Instant last_news_{};               // the same, or a promise of one
  std::uint32_t parts_most_ = 0;      // of any donor's manifest: more than these are news
  std::optional<Instant> gathering_;  // since the first offer that is not judged yet
  Donors donors_;
  Paces paces_;  // of what donors send us; those of the context are of what we send
  std::vector<Stripe> stripes_;
  std::deque<std::uint32_t> free_;  // stripes nobody gives
  std::uint32_t whole_stripes_ = 0;
  bool one_snapshot_ = false;  // everything from one donor, as the offers are now
  bool mixed_badly_ = false;   // and for good
  bool one_told_ = false;
  std::optional<Giver> begun_;   // that was to give everything, last
  std::uint32_t turn_gave_ = 0;  // pieces, before it made room for others
  int rejected_ = 0;
  StateSketch median_;
  Promise checked_;                    // of what is being, or was, checked
  std::map<Giver, Promise> promises_;  // of those that were in service
  std::optional<Instant> ends_at_;     // the whole
  std::set<PeerId> was_slow_;          // others were tried instead
};

}  // namespace starling::gossip

// SimHostile: what a hostile member of a simulated swarm says.
//
// It runs a real core, mixer and trainer, so that it is met like anybody else. What they send
// passes through twist(), which alters, withholds or repeats it; deeds() are things it says of its
// own accord. Which misdeeds it does is drawn, so that rare combinations occur in clean form. It
// knows what a member knows: what its own core hears and says. It cannot speak in another's name,
// which the link prevents, nor damage a frame, which the digest would show.
//
// It forges records and counts of tokens, and accuses, in anybody's name. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "gossip/core.h"
#include "gossip/sim/sim_mixer.h"
#include "gossip/sim/sim_options.h"

namespace starling::gossip {

// The training data of a swarm with hostile members, so that they can lie about it.
inline constexpr PartSpace kSimPartSpace{1, 64};
inline constexpr std::uint64_t kSimRun = 1;

// Something that leaves a hostile peer.
struct SimSaid {
  std::uint32_t to = 0;
  Message message;
  std::optional<SimPayload> payload;
};

class SimHostile {
 public:
  SimHostile(std::uint32_t self, const SimOptions& options, Rng rng);

  // What is said instead of `message`.
  std::vector<SimSaid> twist(std::uint32_t to, const Message& message, const SimPayload* payload);
  // What it hears: names to lie about.
  void hear(const Message& message);
  std::vector<SimSaid> deeds();
  Duration until_next_deed() { return rng_.exponential(kDeedsEvery, std::chrono::milliseconds(1)); }

  bool does(Misdeed misdeed) const { return (misdeeds_ & bit(misdeed)) != 0; }
  std::uint64_t lies() const { return lies_; }          // things said that are not so
  std::uint64_t withheld() const { return withheld_; }  // messages that were owed

 private:
  static constexpr Duration kDeedsEvery = std::chrono::seconds(1);
  struct Twist;

  // sim_hostile.cpp: what its core says
  void note(std::uint32_t to, const SimSaid& said);
  void note(const PeerRecord& record);
  bool withholds(const Message& message);
  void take_back(Message& message);
  std::optional<PeerRecord> lie();
  PeerRecord invent();
  void lie_about(PeerRecord& record);
  void lie_about(BoundedList<TokenEntry, kTokensMax>& tokens);
  StripeRef rename(StripeRef ref);
  StripeValues rubbish();

  // sim_hostile_deeds.cpp: what it says of its own
  std::uint32_t anybody();
  void flood(std::vector<SimSaid>& said);
  void spread_lies(std::vector<SimSaid>& said);
  void accuse(std::vector<SimSaid>& said) const;
  void vouch(std::vector<SimSaid>& said);
  void interfere(std::vector<SimSaid>& said);
  Message flood_message(std::uint64_t kind);
  Message settling(std::uint64_t kind, const StripeRef& ref);
  Parts parts_lie();

  const std::uint32_t self_;
  const std::uint32_t peers_;
  const std::vector<std::uint32_t> stripes_;
  Rng rng_;
  std::uint32_t misdeeds_ = 0;
  std::vector<PeerRecord> known_;                          // of others, as they say
  std::map<ExchangeKey, float> agreed_;                    // clip radius, as its own core sees it
  std::vector<std::pair<std::uint32_t, StripeRef>> refs_;  // of its exchanges, and with whom
  std::vector<SimSaid> past_;                              // to be said again
  std::uint64_t lies_ = 0;
  std::uint64_t withheld_ = 0;
};

}  // namespace starling::gossip

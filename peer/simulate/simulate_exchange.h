// SimulatedExchange: the outer methods of others (optim/outer_exchange.h) in a simulated swarm. It
// draws who meets whom, has parcels take the time of their lines, and makes peers wait where a
// method does.
//
// Those who wait for each other meet: a meeting is of one fragment after one step, which all that
// wait reach, for peers of such a method take equally many steps in a round. Who dies is left out
// at once, though a real swarm would have to find that out first; a lost parcel is sent again;
// while a partition is between, it waits. Who joins takes over the meetings of the peer that it
// begins from, without a parcel of its own. A server has a line of 10 Gbit/s, and rounds with it
// are as long as outer.local_steps says, by the speeds of all; its authors' grace period is not
// simulated. Parcels travel as floats.
//
// At the end a round that was offered is still taken where the method waits for it; a run is judged
// by the server's weights where there is a server.
//
// Every peer knows the tokens of all: the clock costs such a swarm next to nothing. Thread: the
// swarm's owner; chance is drawn in the order of the events.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "optim/outer_async_local_sgd.h"
#include "optim/outer_exchange.h"
#include "optim/schedule.h"
#include "peer/simulate/simulate_method.h"
#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

class SimulatedExchange final : public SimulatedMethod {
 public:
  SimulatedExchange(SimulatedSwarm& swarm, std::unique_ptr<optim::OuterExchange> exchange);
  ~SimulatedExchange() override;

  Status start(std::uint32_t peer, const CheckpointImage* joined) override;
  void computed(std::uint32_t peer) override;
  void stop(std::uint32_t peer, bool crashed) override;
  void complete(std::uint32_t peer, std::unique_ptr<CheckpointImage>& image) override;
  ExchangeCounts exchanges(std::uint32_t peer) const override;
  bool finish() override;
  // Of gradients what is under way belongs to steps that are given up; and where nobody waits, the
  // run is over when its tokens are trained.
  bool settled() const override {
    return under_way_ == 0 || !plan_.waits || plan_.when == optim::ExchangePlan::When::kGradient;
  }
  bool own_model(std::span<float> whole) const override;  // the server's

  std::size_t meetings() const { return meetings_.size(); }  // that somebody still waits for

 private:
  using Audience = optim::ExchangePlan::Audience;
  static constexpr Duration kTryAgain = std::chrono::seconds(1);  // after a parcel that was lost
  struct Key {
    std::uint64_t step = 0;
    FragmentId fragment;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Meeting {
    std::vector<std::uint32_t> members;              // in the order of their ranks, where drawn
    std::map<std::uint32_t, optim::Parcel> parcels;  // by who offered it
    std::map<std::uint32_t, std::vector<std::uint32_t>> came;  // to whom: from whom
    std::map<std::uint32_t, optim::Parcel> results;            // for whom; or shared:
    optim::Parcel shared;
    bool closed = false;          // all that were expected have offered
    std::uint32_t under_way = 0;  // parcels
    std::uint32_t takers = 0;     // that have not taken
  };
  struct Wait {
    Key key;
    std::uint64_t due = 0;        // after this step it is taken, and not without it
    std::uint32_t parcel_of = 0;  // its own, or of the peer that it took the meeting over from
    const optim::Parcel* result = nullptr;  // null: not there yet
  };
  struct Member {
    std::vector<float> slow, momentum;
    std::vector<double> mass;         // by fragment
    std::vector<Wait> waits;          // oldest first
    std::vector<std::uint32_t> asks;  // by fragment: offers to a partner under way
    std::uint64_t offered = 0;        // the last step after which it offered
    // Of rounds whose length follows its speed: what was due after the last step that was counted.
    std::optional<optim::FragmentClock> clock;
    std::uint64_t counted = 0;
    std::optional<FragmentId> due;
    bool blocked = false;
    bool inherits_step = false;  // the one that it began from was trained by its donor
    ExchangeCounts counts;
  };

  // simulate_exchange.cpp: a peer
  std::uint64_t steps(std::uint32_t peer) const;
  optim::ExchangeState state(std::uint32_t peer, FragmentId fragment);
  optim::Parcel offer(std::uint32_t peer, FragmentId fragment);
  void take(std::uint32_t peer, FragmentId fragment, const optim::Parcel& own,
            const optim::Parcel& combined);
  void go_on(std::uint32_t peer);
  bool take_due(std::uint32_t peer);
  std::optional<FragmentId> due(std::uint32_t peer, std::uint64_t step);
  std::uint32_t steps_per_round(std::uint32_t peer) const;
  void begin_step(std::uint32_t peer);
  std::size_t bytes(FragmentId fragment) const;
  void carry(VirtualNetwork::Route route, std::size_t bytes, std::function<void()> then);
  // One of those under way: `then` runs at `when`, and it counts no more.
  void arrives(Instant when, std::function<void()> then);

  // simulate_meetings.cpp: several
  void meet(std::uint32_t peer, Key key);
  void send_to_members(std::uint32_t peer, Key key);
  void send_parcel(VirtualNetwork::Route route, Key key);
  std::vector<std::uint32_t> draw_members(std::uint32_t first, Key key);
  std::vector<std::uint32_t> group_of(const Meeting& meeting, std::uint32_t peer) const;
  bool expected(std::uint32_t peer, Key key, const Meeting& meeting) const;
  void look(Key key);
  void close(Key key);
  void sum_up(Key key);
  void finish_targets(Key key);
  void look_for(std::uint32_t peer, Key key);
  void hand_over(std::uint32_t peer, Key key, const optim::Parcel& result);
  void ask(std::uint32_t peer, FragmentId fragment);
  void answer(VirtualNetwork::Route route, FragmentId fragment, std::uint32_t offered);
  std::uint32_t keep(optim::Parcel parcel);
  void release(std::uint32_t place);
  void report_to_server(std::uint32_t peer, Key key);

  SimulatedSwarm& swarm_;
  const std::unique_ptr<optim::OuterExchange> exchange_;
  const optim::ExchangePlan plan_;
  const std::uint32_t server_;  // its place in the network
  Rng rng_;
  std::vector<Member> members_;
  std::map<Key, Meeting> meetings_;
  std::vector<optim::DelayedNesterovServer> servers_;  // by fragment
  std::vector<optim::Parcel> kept_;                    // under way without a meeting
  std::vector<std::uint32_t> free_;                    // places of kept_
  std::uint64_t under_way_ = 0;                        // parcels and sums, of all
  bool finishing_ = false;
};

}  // namespace starling::peer

// FetchMeter: takes the pieces of a state that donors send to a newcomer, counts and forgets them.
// What a run would check and store is believed here: the question is how fast it comes.
//
// Thread: the driver's. Outlives it; answers by `answer`, never before submit() returns.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>

#include "gossip/driver.h"

namespace starling::peer {

// From one donor: what came after its first piece, and within which time.
struct Fetched {
  std::uint64_t bytes = 0;
  Duration took{};
};

class FetchMeter final : public gossip::StatePort {
 public:
  FetchMeter(boost::asio::io_context& io, std::function<void(const gossip::StateInput&)> answer)
      : io_(io), answer_(std::move(answer)) {}

  void submit(gossip::StateOrder order, Bytes payload) override;

  Fetched from(PeerId donor) const;
  std::uint64_t bytes() const { return bytes_; }  // from all, first pieces included

 private:
  struct Row {
    std::uint64_t bytes = 0;
    Instant first, last;
  };
  void post(const gossip::StateInput& input);

  boost::asio::io_context& io_;
  const std::function<void(const gossip::StateInput&)> answer_;
  std::map<PeerId, Row> rows_;
  std::uint64_t bytes_ = 0;
};

}  // namespace starling::peer

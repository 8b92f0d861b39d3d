#include "gossip/message_meter.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Intake = MessageMeter::Intake;

}  // namespace

TEST_CASE("a meter takes a burst, then its rate, and never blames either") {
  MessageMeter meter(MessageMeter::kTalk);
  Instant now{};
  for (int i = 0; i < static_cast<int>(MessageMeter::kTalk.at_once); ++i) {
    CHECK(meter.take(now) == Intake::kTaken);
  }
  CHECK(meter.take(now) == Intake::kDropped);
  for (int i = 0; i < 10'000; ++i) {
    now += milliseconds(20);
    CHECK(meter.take(now) == Intake::kTaken);
  }
}

TEST_CASE("what is dropped adds up to a deluge unless there was a rest") {
  MessageMeter meter(MessageMeter::kTalk);
  Instant now{};
  const auto flood = [&] {
    std::uint32_t dropped = 0;
    for (int i = 0; i < 2000; ++i) dropped += meter.take(now) == Intake::kDropped ? 1 : 0;
    return dropped;
  };
  CHECK(flood() == 1500);
  now += seconds(10);
  CHECK(flood() == 1500);  // after a rest it counts anew
  now += seconds(5);
  std::uint32_t left = MessageMeter::kTalk.deluge_drops - 1500;
  for (int i = 0; i < 250; ++i) CHECK(meter.take(now) == Intake::kTaken);
  while (--left > 0) CHECK(meter.take(now) == Intake::kDropped);
  CHECK(meter.take(now) == Intake::kDeluge);
  CHECK(meter.take(now) == Intake::kDropped);  // once
}

TEST_CASE("whatever is made room for one by one is never beyond the measure") {
  MessageMeter meter(MessageMeter::kUnasked);
  for (int i = 0; i < 10'000; ++i) {
    meter.give();
    CHECK(meter.take(Instant{}) == Intake::kTaken);
  }
}

}  // namespace starling::gossip

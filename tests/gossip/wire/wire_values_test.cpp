// Frames that are whole, from a sender who can compute checksums, with values that must not be.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <variant>

#include "gossip/wire/wire.h"
#include "tests/gossip/wire/edited_frame.h"

namespace starling::gossip {

TEST_CASE("values out of their range are refused although the checksum is right") {
  Hello hello{.self = {.key = {PeerId{2}, 1}, .address = {}, .health = Health::kLeft},
              .identity = {}};
  REQUIRE(set_host(hello.self.address, "ab"));
  hello.self.address.key = stand_in_key(PeerId{2});
  hello.self.address.control_port = 1;
  hello.self.address.bulk_port = 1;
  const Buffer frame = encode(PeerId{2}, hello);
  constexpr std::size_t kHostSizeAt = kHeaderBytes + 16;
  constexpr std::size_t kHostAt = kHostSizeAt + 1;
  constexpr std::size_t kControlPortAt = kHostAt + 2;
  constexpr std::size_t kKeyAt = kControlPortAt + 4;
  constexpr std::size_t kHealthAt = kKeyAt + 32;
  constexpr std::size_t kForwardsAt = kHealthAt + 12, kVersionsAt = kForwardsAt + 27 + 64;
  const auto with = [&frame](std::size_t at, std::uint8_t value) {
    Buffer edited = frame;
    return decode_with(edited, at, value).ok();
  };
  CHECK(with(kHealthAt, 3));
  CHECK(!with(kHealthAt, 4));
  CHECK(!with(kHealthAt, 255));
  CHECK(!with(kHostSizeAt, 1));   // everything behind moves: the body is too long
  CHECK(!with(kHostSizeAt, 65));  // more than any host
  CHECK(!with(kHostSizeAt, 255));
  CHECK(with(kHostAt, '7'));
  CHECK(!with(kHostAt, '-'));
  CHECK(!with(kHostAt, ';'));  // would name a source address to the transport
  CHECK(!with(kHostAt, '*'));
  CHECK(!with(kHostAt, 0));
  CHECK(!with(kControlPortAt, 0));
  CHECK(with(kKeyAt + 20, 1));
  CHECK(!with(kKeyAt, 1));          // another peer's key
  CHECK(!with(kHeaderBytes, 1));    // another peer's id
  CHECK(!with(kKeyAt + 31, 0x80));  // a key with a sign
  CHECK(with(kHealthAt + 1, 0));
  CHECK(!with(kHealthAt + 1, 2));    // dialable or not
  CHECK(!with(kForwardsAt, 2));      // forwards or not
  CHECK(!with(kForwardsAt + 1, 1));  // a relay that is not there
  CHECK(!with(kVersionsAt, 0));      // the lowest version
  CHECK(with(kVersionsAt + 1, 9));   // the highest
  CHECK(!with(kVersionsAt + 1, 0));  // below the lowest
  CHECK(!with(5, 0));                // type
  CHECK(!with(5, std::variant_size_v<Message> + 1));
  CHECK(!with(6, 1));   // flags
  CHECK(!with(16, 0));  // sender: nobody
}

TEST_CASE("a reason that a later version brings is read as one that is known") {
  constexpr auto kReasonsEnd = static_cast<std::uint8_t>(kRejectReasons);
  for (const Message& message : {Message(Abandoned{}), Message(Abort{})}) {
    Buffer frame = encode(PeerId{2}, message);
    const auto reason = [&frame](std::uint8_t value) {
      const Message heard = decode_with(frame, frame.size() - 1, value).value().message;
      const auto* abandoned = std::get_if<Abandoned>(&heard);
      return abandoned != nullptr ? abandoned->reason : std::get<Abort>(heard).reason;
    };
    CHECK(reason(kReasonsEnd - 1) == static_cast<RejectReason>(kReasonsEnd - 1));
    CHECK(reason(kReasonsEnd) == RejectReason::kNone);
    CHECK(reason(255) == RejectReason::kNone);
  }
  Buffer declined = encode(PeerId{2}, Decline{});
  const auto decline_reason = [&declined](std::uint8_t value) {
    auto heard = decode_with(declined, declined.size() - 5, value);
    return std::get<Decline>(heard.value().message).reason;
  };
  constexpr auto kMuted = static_cast<std::uint8_t>(DeclineReason::kMuted);
  CHECK(decline_reason(kMuted) == DeclineReason::kMuted);
  CHECK(decline_reason(kMuted + 1) == DeclineReason::kBusy);
  Buffer none = encode(PeerId{2}, StateDeclined{});
  const auto state_reason = [&none](std::uint8_t value) {
    auto heard = decode_with(none, none.size() - 5, value);
    return std::get<StateDeclined>(heard.value().message).reason;
  };
  constexpr auto kWrong = static_cast<std::uint8_t>(StateReason::kWrong);
  CHECK(state_reason(kWrong) == StateReason::kWrong);
  CHECK(state_reason(kWrong + 1) == StateReason::kBusy);
  Refuse refusal;
  refusal.address.key = stand_in_key(PeerId{2});
  Buffer refused = encode(PeerId{2}, refusal);
  const auto refuse_reason = [&refused](std::uint8_t value) {
    auto heard = decode_with(refused, kHeaderBytes, value);
    return std::get<Refuse>(heard.value().message).reason;
  };
  constexpr auto kSecret = static_cast<std::uint8_t>(RefuseReason::kSecret);
  CHECK(refuse_reason(kSecret) == RefuseReason::kSecret);
  CHECK(refuse_reason(kSecret + 1) == RefuseReason::kProtocol);  // ours is the older one
}

TEST_CASE("a number that is not finite and a bool that is neither are refused") {
  const Offer offer{.exchange = {},
                    .fragment = {},
                    .stripes = 0,
                    .format = 0,
                    .cold = false,
                    .weight = 1,
                    .mixing = 1,
                    .clip_radius = 1,
                    .patience_ms = 0,
                    .standing = {},
                    .lag_s = 1};
  Buffer frame = encode(PeerId{2}, offer);
  const std::size_t cold_at = kHeaderBytes + 40 + 2 + 4 + 1;
  REQUIRE(frame.size() == cold_at + 1 + 12 + 4 + 4 + 1 + 4);
  CHECK(decode_with(frame, cold_at, 1).ok());
  CHECK(!decode_with(frame, cold_at, 2).ok());
  CHECK(decode_with(frame, cold_at, 0).ok());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {kInfinity, -kInfinity, kNan}) {
    for (std::size_t field = 0; field < 3; ++field) {
      Buffer edited = frame;
      std::memcpy(edited.data() + cold_at + 1 + 4 * field, &value, sizeof value);
      seal(edited);
      CHECK(!decode(edited).ok());
    }
  }
}

TEST_CASE("a standing with a negative loss or an unprintable device is refused") {
  Accept accept;
  accept.standing = make_standing(1, "cpu");
  Buffer frame = encode(PeerId{2}, accept);
  const std::size_t end = frame.size() - sizeof accept.lag_s;
  const std::size_t loss_at = end - 4 - sizeof(float);  // a size, and three letters
  CHECK(decode_with(frame, end - 1, '~').ok());
  CHECK(!decode_with(frame, end - 1, 0x1b).ok());
  CHECK(!decode_with(frame, end - 1, 0x7f).ok());
  CHECK(decode_with(frame, end - 1, ' ').ok());
  const float negative = -1;
  std::memcpy(frame.data() + loss_at, &negative, sizeof negative);
  seal(frame);
  CHECK(!decode(frame).ok());
}

TEST_CASE("a lag that is negative or no number is refused") {
  for (const float lag :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (Message message : {Message(Offer{}), Message(Accept{})}) {
      Buffer frame = encode(PeerId{2}, message);
      REQUIRE(decode(frame).ok());
      std::memcpy(frame.data() + frame.size() - sizeof lag, &lag, sizeof lag);
      seal(frame);
      CHECK(!decode(frame).ok());
    }
  }
}

}  // namespace starling::gossip

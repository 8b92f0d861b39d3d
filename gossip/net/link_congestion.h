// TCP's congestion control under payloads: which one a connection has, and another for lines that
// lose packets though they are not full.
//
// Reno (RFC 5681) and CUBIC (RFC 9438), the usual ones of Linux, take every loss for a full line
// and slow down: with one packet in a hundred lost and a round trip of 100 ms they carry some
// 1 Mbit/s, whatever the line could (Mathis et al., "The macroscopic behavior of the TCP congestion
// avoidance algorithm", ACM CCR 27(3), 1997). BBR (Cardwell et al., "BBR: congestion-based
// congestion control", CACM 60(2), 2017) goes by what arrives. It is not taken everywhere, because
// it nearly stops every ten seconds to measure the round trip.
//
// loss_watch.h tells such lines; here the control is changed, where the system lets a program do
// so. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace starling::gossip {

// What a connection does about losses.
enum class Endurance : std::uint8_t {
  kNone,   // it slows down for each, and there is no other control to be had
  kGiven,  // it did, and has another now
  kOwn     // it has another than Linux's usual ones: that is its owner's choice
};
// Gives the connection a control that a loss does not slow down.
Endurance endure_losses(int descriptor);

// What a connection of this process would have, and what endure_losses() would do to it.
struct CongestionControl {
  std::string usual;
  Endurance endurance = Endurance::kNone;
};
std::optional<CongestionControl> congestion_control();  // empty: the system does not tell

}  // namespace starling::gossip

// CodeAgreement: in which code the payloads of an exchange with one partner are, by what both wish
// for and what its version of the wire knows. Codes go together by the table GossipConfig::codes,
// from most to fewest bits; of two that are in it, the one with fewer is taken.
//
// A partner of a version before kCodesAgree takes its own configured format and the cold one, and
// nothing else. Thread: a plain value, which must not outlive the configuration.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/config.h"

namespace starling::gossip {

class CodeAgreement {
 public:
  static constexpr std::uint8_t kCodesAgree = 2;

  // `version`: the wire's, with the partner.
  CodeAgreement(const GossipConfig& config, std::uint8_t version)
      : config_(config), version_(version) {}

  // What is offered, and held against what is: what this peer wishes for now, or, where the partner
  // does not know that, the next code with more bits.
  std::uint8_t offered(std::uint8_t wished) const;
  // Where one side wishes for `one` and the other for `other`. Nothing: the two do not go together.
  std::optional<std::uint8_t> common(std::uint8_t one, std::uint8_t other) const;

 private:
  const GossipConfig& config_;
  std::uint8_t version_;
};

}  // namespace starling::gossip

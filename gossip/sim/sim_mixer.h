// SimMixer: a mixer whose weights are 64-bit integers, so that conservation can be checked exactly.
//
// Executes the core's orders strictly in order and keeps what the real mixer keeps: the values, the
// ledger written in the same breath, the staged deltas of responders and the unacknowledged ones of
// initiators. When an order runs is decided by the simulator. With D = x_responder - x_initiator
// and h = D/2 rounded toward zero, scaled down to the clip radius where it is larger, the initiator
// adds w_r/w * 2h and the responder subtracts w_i/w * 2h, where w_i + w_r = w: what each moves by,
// times its weight, is the same to the last bit, as they share out 2h in equal parts rounded toward
// zero. Weights are counted in eighths, of which whoever has any weight has one: none is more than
// eight times another. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "gossip/driver.h"
#include "gossip/ledger.h"
#include "gossip/sim/sim_options.h"

namespace starling::gossip {

using StripeValues = std::array<std::int64_t, 4>;

// What a payload is in the simulator: it knows what it belongs to, so that a mix-up is seen.
struct SimPayload {
  StripeRef ref;
  StripeValues values{};
  bool finite = true;                    // all of them; only a hostile peer sends others
  bool sound = true;                     // bytes that can be decoded
  std::vector<std::uint64_t> digests{};  // of a manifest
};
// Weights of honest peers stay far below; larger ones are of another size
// (peer/roles/admission_gate.h).
inline constexpr std::int64_t kSimValueMax = std::int64_t{1} << 55;

// Weights in the smallest whole numbers. Mixing must be 1/2.
struct SimWeights {
  std::int64_t initiator = 0;
  std::int64_t responder = 0;
};
SimWeights sim_weights(const PairTerms& terms);
// By what that side's values change; not at all where nobody has weight.
StripeValues sim_change(const PairTerms& terms, Role role, const StripeValues& half);
StripeValues half_difference(const StripeValues& initiator, const StripeValues& responder);
// Scaled so that no value is beyond the radius; not above zero: there is none.
StripeValues clipped(const StripeValues& half, float radius);
bool within_radius(const StripeValues& half, float radius);
// target + factor * change
void add(StripeValues& target, std::int64_t factor, const StripeValues& change);

// Where a stripe's values lie in a peer's flat list.
class StripeIndex {
 public:
  explicit StripeIndex(const std::vector<std::uint32_t>& stripes);
  std::size_t size() const { return first_.back(); }
  std::size_t at(FragmentId fragment, std::uint32_t stripe) const;

 private:
  std::vector<std::size_t> first_;  // per fragment, and the end
};

enum class Answer : std::uint8_t { kNone, kEncoded, kStaged, kApplied, kCompensated };

const StripeRef& ref_of(const MixerOrder& order);

struct MixerResult {
  MixerOrder order;
  Answer answer = Answer::kNone;
  Verdict verdict;
  bool ok() const { return verdict.done(); }
  bool clipped = false;
  bool odd = false;   // the order made no sense: the core must never give such a one
  bool moot = false;  // it is about weights that have been replaced
  SimPayload payload;
};

class SimMixer {
 public:
  struct KeptDelta {
    StripeValues half{};
    PairTerms terms;
  };
  // One consistent moment: what a checkpoint holds.
  struct Cut {
    std::vector<StripeValues> values;
    std::vector<LedgerRow> ledger;
    std::map<StripeRef, KeptDelta> unacknowledged;
  };

  SimMixer(const StripeIndex& index, const Cut& restored, SeededBug bug);

  void submit(const MixerOrder& order, const SimPayload* payload);
  bool idle() const { return orders_.empty(); }
  // Executes the oldest order. `refuse`: there is no slot, where the order may be refused at all.
  MixerResult execute_next(bool refuse);
  void train(std::size_t stripe, const StripeValues& change) { add(values_[stripe], 1, change); }
  // What a newcomer has fetched. What was settled or not belongs to weights that are gone.
  void adopt(const std::vector<StripeValues>& values);

  Cut cut() const;
  const std::vector<StripeValues>& values() const { return values_; }
  std::size_t deltas_held() const { return staged_.size() + unacknowledged_.size(); }

 private:
  struct Order {
    MixerOrder order;
    std::optional<SimPayload> payload;
  };
  struct Execute;

  StripeValues& values_of(const StripeRef& ref);

  const StripeIndex& index_;
  const SeededBug bug_;
  std::vector<StripeValues> values_;
  bool adopted_ = false;
  Ledger ledger_;
  std::map<StripeRef, KeptDelta> staged_;          // responder
  std::map<StripeRef, KeptDelta> unacknowledged_;  // initiator
  std::deque<Order> orders_;
};

}  // namespace starling::gossip

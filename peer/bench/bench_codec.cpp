#include "peer/bench/bench_codec.h"

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "optim/block_scales.h"
#include "optim/fragment_codec.h"
#include "optim/outer_rule.h"
#include "optim/vector_math.h"
#include "peer/roles/admission_gate.h"

namespace starling::peer {

namespace {

constexpr float kWeight = 0.02F;       // root mean square, as of a model that has begun to learn
constexpr float kDifference = 0.001F;  // of two peers

// Two peers that exchange their whole models, and what the mixer keeps for one stripe at a time.
class Pair {
 public:
  explicit Pair(std::size_t parameters)
      : initiator_(parameters),
        responder_(parameters),
        difference_(std::min(parameters, optim::kStripeParameters)),
        correction_(difference_.size()),
        blocks_(optim::block_count(difference_.size())),
        exponents_(blocks_.size()) {
    Rng rng(1);
    for (std::size_t i = 0; i < parameters; ++i) {
      initiator_[i] = kWeight * rng.normal();
      responder_[i] = initiator_[i] + kDifference * rng.normal();
    }
    for (std::size_t first = 0; first < parameters; first += optim::kStripeParameters) {
      const std::size_t count = std::min(optim::kStripeParameters, parameters - first);
      stripes_.push_back({first, count, optim::BlockScales(count), {}, {}});
    }
    choose(optim::WireFormat::kF32);  // whose exchange is the first that scales can learn from
    encode();
    answer();
    decode();
  }

  void choose(optim::WireFormat format) {
    format_ = format;
    for (Stripe& stripe : stripes_) {
      stripe.push.resize(optim::push_bytes(format, stripe.count));
      stripe.delta.resize(optim::delta_bytes(format, stripe.count));
    }
  }
  void encode() {
    for (Stripe& stripe : stripes_) {
      const auto slow = part(initiator_, stripe);
      const auto exponents = std::span(exponents_).first(optim::block_count(stripe.count));
      stripe.scales.exponents(format_, slow, exponents);
      sound_ = optim::encode_push(format_, kKey, slow, exponents, stripe.push).ok() && sound_;
    }
  }
  void answer() {
    for (Stripe& stripe : stripes_) {
      sound_ =
          admit_push(gate(responder_, stripe), stripe.push, target(stripe), stripe.delta, report_)
              .done() &&
          sound_;
    }
  }
  void decode() {
    for (Stripe& stripe : stripes_) {
      sound_ =
          admit_delta(gate(initiator_, stripe), stripe.delta, 0, target(stripe), report_).done() &&
          sound_;
      stripe.scales.observe(target(stripe).blocks, report_.clip_factor, report_.format);
    }
  }
  // There and back again, pass by pass, so that the two stay as far apart as they are.
  void apply() {
    share_ = -share_;
    for (const Stripe& stripe : stripes_) {
      optim::shift(std::span(initiator_).subspan(stripe.first, stripe.count),
                   std::span(correction_).first(stripe.count), share_, target(stripe).difference);
    }
  }

  bool sound() const { return sound_; }
  double push_bytes() const { return bytes(&Stripe::push); }
  double delta_bytes() const { return bytes(&Stripe::delta); }

 private:
  static constexpr std::uint64_t kKey = 1;
  struct Stripe {
    std::size_t first = 0, count = 0;
    optim::BlockScales scales;
    std::vector<std::byte> push, delta;
  };

  static std::span<const float> part(const std::vector<float>& slow, const Stripe& stripe) {
    return std::span(slow).subspan(stripe.first, stripe.count);
  }
  GateStripe gate(const std::vector<float>& slow, const Stripe& stripe) const {
    return {.slow = part(slow, stripe), .format = format_, .clip_radius = 0, .key = kKey};
  }
  GateTarget target(const Stripe& stripe) {
    return {std::span(difference_).first(stripe.count),
            std::span(blocks_).first(optim::block_count(stripe.count))};
  }
  double bytes(std::vector<std::byte> Stripe::*payload) const {
    double sum = 0;
    for (const Stripe& stripe : stripes_) sum += static_cast<double>((stripe.*payload).size());
    return sum;
  }

  std::vector<float> initiator_, responder_;
  std::vector<Stripe> stripes_;
  std::vector<float> difference_, correction_;
  std::vector<optim::BlockReport> blocks_;
  std::vector<std::int8_t> exponents_;
  optim::DeltaReport report_;
  optim::WireFormat format_ = optim::WireFormat::kF32;
  float share_ = 0.5F;
  bool sound_ = true;
};

// Stripe by stripe, as snapshots come.
Spread outer_steps(const optim::OuterRule& rule, const RateBenchOptions& options) {
  const std::size_t count = options.parameters;
  std::vector<float> slow(count, 0.5F), momentum(count), local(count, 0.6F);
  return time_passes(options.seconds, [&] {
    for (std::size_t first = 0; first < count; first += optim::kStripeParameters) {
      const std::size_t size = std::min(optim::kStripeParameters, count - first);
      rule.step({}, std::span(slow).subspan(first, size), std::span(momentum).subspan(first, size),
                std::span(local).subspan(first, size));
    }
  });
}

}  // namespace

Result<RateBench> bench_codec(const RateBenchOptions& options) {
  if (Status valid = validate(options); !valid.ok()) return std::move(valid).error();
  RateBench bench{.bench = "codec",
                  .device = "cpu, 1 thread",
                  .parameters = options.parameters,
                  .rates = {},
                  .machine = {}};
  const auto values = static_cast<double>(options.parameters);
  auto rule = optim::make_outer_rule({});
  if (!rule.ok()) return std::move(rule).error();
  bench.rates.push_back({.name = "outer step",
                         .values = values,
                         .bytes = 6 * values * sizeof(float),
                         .seconds = outer_steps(*rule.value(), options)});
  Pair pair(options.parameters);
  for (const auto format : optim::kWireFormats) {
    pair.choose(format);
    const auto measure = [&](const char* path, double bytes, void (Pair::*pass)()) {
      bench.rates.push_back({.name = std::string(optim::to_string(format)) + " " + path,
                             .values = values,
                             .bytes = bytes,
                             .seconds = time_passes(options.seconds, [&] { (pair.*pass)(); })});
    };
    const double floats = values * sizeof(float);
    measure("encode", floats + pair.push_bytes(), &Pair::encode);
    measure("answer", floats + pair.push_bytes() + pair.delta_bytes(), &Pair::answer);
    measure("decode", floats + pair.delta_bytes() + floats, &Pair::decode);
  }
  // The same for all formats: the difference is one of floats by then, and in the cache.
  bench.rates.push_back({.name = "apply",
                         .values = values,
                         .bytes = 3 * values * sizeof(float),
                         .seconds = time_passes(options.seconds, [&] { pair.apply(); })});
  if (!pair.sound()) return Error(ErrorCode::kCorrupt, "a payload of our own was refused");
  bench.machine =
      measure_machine({.threads = 1, .seconds = options.seconds, .copy_bytes = options.copy_bytes});
  return bench;
}

}  // namespace starling::peer

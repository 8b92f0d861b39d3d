#include "peer/swarm/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/assert.h"

namespace starling::peer {

namespace {

double share_by(const Worker& worker, double work, double seconds) {
  return std::clamp(worker.speed * (seconds - worker.fixed_seconds) / work, 0.0, worker.most);
}

double filled_by(std::span<const Worker> workers, double work, double seconds) {
  double sum = 0;
  for (const Worker& worker : workers) sum += share_by(worker, work, seconds);
  return sum;
}

// Of the moments at which a machine begins or is full, the first at which all is done.
std::size_t first_enough(std::span<const Worker> workers, double work,
                         std::span<const double> moments) {
  const auto enough = std::partition_point(moments.begin(), moments.end(), [&](double moment) {
    return filled_by(workers, work, moment) < 1;
  });
  return static_cast<std::size_t>(enough - moments.begin());
}

}  // namespace

std::vector<double> proportional_shares(std::span<const double> speeds) {
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  STARLING_ASSERT(all > 0);
  std::vector<double> shares(speeds.begin(), speeds.end());
  for (double& share : shares) share /= all;
  return shares;
}

std::optional<BalancedShares> balanced_shares(std::span<const Worker> workers, double work) {
  STARLING_ASSERT(work > 0);
  std::vector<double> moments;
  for (const Worker& worker : workers) {
    STARLING_ASSERT(worker.speed > 0);
    moments.push_back(worker.fixed_seconds);
    moments.push_back(worker.fixed_seconds + work * worker.most / worker.speed);
  }
  std::sort(moments.begin(), moments.end());
  const std::size_t at = first_enough(workers, work, moments);
  if (at == moments.size()) {
    // All are full; that they are so by a rounding error less than needed is enough.
    constexpr double kEnough = 1 - 1e-9;
    if (moments.empty() || filled_by(workers, work, moments.back()) < kEnough) return std::nullopt;
  }
  BalancedShares result;
  if (at == moments.size()) {
    result.seconds = moments.back();
  } else if (at == 0) {
    result.seconds = moments.front();
  } else {  // between two of these moments the work done grows evenly
    const double before = filled_by(workers, work, moments[at - 1]);
    const double after = filled_by(workers, work, moments[at]);
    result.seconds =
        moments[at - 1] + (moments[at] - moments[at - 1]) * (1 - before) / (after - before);
  }
  for (const Worker& worker : workers) {
    result.shares.push_back(share_by(worker, work, result.seconds));
  }
  return result;
}

std::vector<std::uint64_t> sharding_round(std::span<const double> shares, std::uint64_t pieces) {
  constexpr double kRounding = 1e-9;  // 0.1 + 0.2 of 10 pieces are 3
  const auto all = static_cast<double>(pieces);
  std::vector<std::uint64_t> rounded;
  std::uint64_t given = 0;
  for (const double share : shares) {
    const double exact = share * all;
    const double slack = std::min(kRounding * exact, 0.5 / static_cast<double>(shares.size()));
    rounded.push_back(static_cast<std::uint64_t>(exact + slack));
    given += rounded.back();
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto missing = [&](std::size_t i) {
    return shares[i] * all - static_cast<double>(rounded[i]);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return missing(left) > missing(right);
  });
  STARLING_ASSERT(given <= pieces);
  STARLING_ASSERT(pieces - given <= order.size());
  for (std::size_t i = 0; given < pieces; ++i, ++given) ++rounded[order[i]];
  return rounded;
}

std::optional<std::vector<std::uint32_t>> pipeline_batches(std::span<const PipelineKind> kinds,
                                                           std::uint32_t micro_batches) {
  double rate = 0;  // micro-batches a second, of all
  for (const PipelineKind& kind : kinds) rate += kind.count * kind.stages / kind.seconds;
  const double mean = micro_batches / rate;
  // Further off is never better; a count of another kind may keep the nearest from summing up.
  std::uint32_t around = 64;
  for (const PipelineKind& kind : kinds) around = std::max(around, 64 + kind.count);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // The least cost of the kinds so far with so many micro-batches together, and what the last of
  // them has then.
  std::vector<double> cost(micro_batches + std::size_t{1}, kNever);
  cost[0] = 0;
  std::vector<std::vector<std::uint32_t>> chosen;
  for (const PipelineKind& kind : kinds) {
    std::vector<double> next(cost.size(), kNever);
    std::vector<std::uint32_t> choice(cost.size(), 0);
    const double each = kind.seconds / kind.stages;
    const auto middle = static_cast<std::int64_t>(std::llround(mean / each));
    const std::int64_t first = std::max<std::int64_t>(1, middle - around);
    for (std::int64_t n = first; n <= std::max(first, middle + around); ++n) {
      const double off = each * static_cast<double>(n) - mean;
      const auto taken = static_cast<std::size_t>(n) * kind.count;
      for (std::size_t sum = taken; sum < cost.size(); ++sum) {
        const double with = cost[sum - taken] + off * off;
        if (with >= next[sum]) continue;
        next[sum] = with;
        choice[sum] = static_cast<std::uint32_t>(n);
      }
    }
    cost = std::move(next);
    chosen.push_back(std::move(choice));
  }
  if (cost.back() == kNever) return std::nullopt;
  std::vector<std::uint32_t> result(kinds.size());
  std::size_t left = micro_batches;
  for (std::size_t i = kinds.size(); i-- > 0;) {
    result[i] = chosen[i][left];
    left -= std::size_t{result[i]} * kinds[i].count;
  }
  return result;
}

double pair_contraction(double mixing, double peers, double exchanges) {
  if (peers < 2) return 1;
  const double one = 4 * mixing * (1 - mixing) / (peers - 1);
  return one < 1 ? std::pow(1 - one, exchanges) : (exchanges > 0 ? 0.0 : 1.0);
}

}  // namespace starling::peer

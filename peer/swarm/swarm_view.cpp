#include "peer/swarm/swarm_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

std::string loss_text(double loss) {
  return loss == 0 ? std::string("-") : fmt::format("{:.4f}", loss);
}

std::string done_text(const PeerStatus& status) {
  if (status.tokens_budget == 0) return "-";
  const double share =
      static_cast<double>(status.tokens) / static_cast<double>(status.tokens_budget);
  // The last step may go beyond.
  return fmt::format("{:.0f}%", std::min(100.0, std::floor(100 * share)));
}

// Its checkpoint left it nothing to train.
bool had_all(const ChildView& peer) {
  if (!peer.latest) return false;
  const PeerStatus& status = *peer.latest;
  return status.tokens > 0 && status.tokens >= status.tokens_budget && status.train_seconds == 0;
}

std::string_view phase_of(const ChildView& peer) {
  return peer.running && peer.latest ? std::string_view(peer.latest->phase) : peer.state;
}

std::string last_text(const PeerStatus& status) {
  const double ago = status.last_exchange_seconds_ago;
  return ago < 0 ? "-" : fmt::format("{:.0f} s", ago);
}

std::string disagreement_text(const PeerStatus& status) {
  return status.disagreement == 0 ? "-" : fmt::format("{:.2e}", status.disagreement);
}

// Of the progress table, behind a peer's name and phase.
struct ProgressColumn {
  std::string_view heading;
  std::size_t width;
  int rank;  // the highest is left out first, where not all fit
  std::string (*text)(const PeerStatus& status);
};
constexpr std::array kProgressColumns = {
    ProgressColumn{"step", 7, 3, [](const PeerStatus& s) { return fmt::to_string(s.step); }},
    ProgressColumn{"done", 5, 1, done_text},
    ProgressColumn{"tok/s", 8, 2,
                   [](const PeerStatus& s) { return human_count(s.tokens_per_second); }},
    ProgressColumn{"loss", 8, 0, [](const PeerStatus& s) { return loss_text(s.loss); }},
    ProgressColumn{"partners", 8, 7,
                   [](const PeerStatus& s) { return fmt::to_string(s.partners); }},
    ProgressColumn{"out", 9, 5, [](const PeerStatus& s) { return human_bytes(s.bytes_out); }},
    ProgressColumn{"in", 9, 8, [](const PeerStatus& s) { return human_bytes(s.bytes_in); }},
    ProgressColumn{"last", 6, 6, last_text},
    ProgressColumn{"disagree", 9, 4, disagreement_text},
};
constexpr std::size_t kNameWidth = 10, kPhaseWidth = 9;

std::vector<ProgressColumn> columns_within(std::size_t width) {
  std::vector<ProgressColumn> chosen(kProgressColumns.begin(), kProgressColumns.end());
  std::size_t needed = kNameWidth + 1 + kPhaseWidth;
  for (const ProgressColumn& column : chosen) needed += 1 + column.width;
  while (needed > width && !chosen.empty()) {
    const auto least = std::max_element(
        chosen.begin(), chosen.end(),
        [](const ProgressColumn& a, const ProgressColumn& b) { return a.rank < b.rank; });
    needed -= 1 + least->width;
    chosen.erase(least);
  }
  return chosen;
}

std::string held_text(const PeerStatus& status) {
  if (!(status.train_seconds > 0)) return "-";
  return fmt::format("{:.2f}%", 100 * status.held_seconds / status.train_seconds);
}

constexpr std::string_view kSummaryRow =
    "{:<12.12} {:>8} {:>8} {:>10} {:>10} {:>9} {:>6} {:>9} {:>9} {:>7}\n";

std::string summary_row(const ChildView& peer) {
  if (!peer.latest) return fmt::format("{:<12.12} {}\n", peer.name, peer.state);
  const PeerStatus& status = *peer.latest;
  return fmt::format(
      fmt::runtime(kSummaryRow), peer.name, human_count(static_cast<double>(status.tokens)),
      human_count(mean_tokens_per_second(peer)), loss_text(status.loss),
      loss_text(status.validation_loss), status.exchanges, status.exchanges_failed,
      human_bytes(status.bytes_out), human_bytes(status.bytes_in), held_text(status));
}

// What is unusual of an average, in brackets.
std::string remark(const AverageView& average, std::size_t peers) {
  std::string text;
  if (average.peers < peers) text = fmt::format("of {} of {} peers", average.peers, peers);
  if (!average.kept.empty()) {
    text += fmt::format("{}the one before is {}", text.empty() ? "" : "; ", average.kept);
  }
  return text.empty() ? text : " (" + text + ")";
}

// As the one knows it who has heard of most; nothing where none has read a part yet.
std::string coverage_line(std::span<const ChildView> peers) {
  const PeerStatus* best = nullptr;
  for (const ChildView& peer : peers) {
    if (!peer.latest || peer.latest->parts == 0) continue;
    if (best == nullptr || peer.latest->parts_never < best->parts_never) best = &*peer.latest;
  }
  if (best == nullptr) return {};
  const auto share = [best](std::uint64_t parts) {
    return 100 * static_cast<double>(parts) / static_cast<double>(best->parts);
  };
  const std::uint64_t less = std::min(best->parts, best->parts_never + best->parts_once);
  return fmt::format(
      "Training data: {:.1f}% never read to the end, {:.1f}% once, {:.1f}% more often.\n",
      share(best->parts_never), share(best->parts_once), share(best->parts - less));
}

}  // namespace

double mean_tokens_per_second(const ChildView& peer) {
  if (!peer.latest) return 0;
  const PeerStatus& first = *peer.first;
  const PeerStatus& latest = *peer.latest;
  // Differences: a peer that went on from a checkpoint counts tokens it did not train just now.
  const double seconds = latest.train_seconds - first.train_seconds;
  if (!(seconds > 0) || latest.tokens < first.tokens) return latest.tokens_per_second;
  return static_cast<double>(latest.tokens - first.tokens) / seconds;
}

std::optional<double> validation_spread(std::span<const ChildView> peers) {
  double smallest = 0;
  double largest = 0;
  std::size_t measured = 0;
  for (const ChildView& peer : peers) {
    if (!peer.latest || !(peer.latest->validation_loss > 0)) continue;
    const double loss = peer.latest->validation_loss;
    smallest = measured == 0 ? loss : std::min(smallest, loss);
    largest = std::max(largest, loss);
    ++measured;
  }
  if (measured < 2) return std::nullopt;
  return largest / smallest - 1;
}

std::string progress_table(std::span<const ChildView> peers, std::size_t columns) {
  const std::vector<ProgressColumn> chosen = columns_within(columns);
  std::string text = fmt::format("{:<{}} {:<{}}", "peer", kNameWidth, "phase", kPhaseWidth);
  for (const ProgressColumn& column : chosen) {
    text += fmt::format(" {:>{}}", column.heading, column.width);
  }
  text += '\n';
  for (const ChildView& peer : peers) {
    text += fmt::format("{0:<{1}.{1}} ", peer.name, kNameWidth);
    if (peer.latest) {
      text += fmt::format("{0:<{1}.{1}}", phase_of(peer), kPhaseWidth);
      for (const ProgressColumn& column : chosen) {
        text += fmt::format(" {:>{}}", column.text(*peer.latest), column.width);
      }
    } else {
      text += phase_of(peer);
    }
    text += '\n';
  }
  return text;
}

std::string summary_table(std::span<const ChildView> peers,
                          const std::optional<AverageView>& average) {
  std::string text = fmt::format(fmt::runtime(kSummaryRow), "peer", "tokens", "tok/s", "train loss",
                                 "valid loss", "exchanges", "failed", "out", "in", "held");
  for (const ChildView& peer : peers) text += summary_row(peer);
  if (average) {
    text += fmt::format("{:<12} {:>8} {:>8} {:>10} {:>10}\n", "average",
                        human_count(static_cast<double>(average->tokens)), "", "",
                        loss_text(average->validation_loss));
  }
  if (const auto spread = validation_spread(peers)) {
    text +=
        fmt::format("Validation losses of the peers differ by {:.2f}% at most.\n", 100 * *spread);
  }
  if (!peers.empty() && std::all_of(peers.begin(), peers.end(), had_all)) {
    text += "Nobody trained: the checkpoints held all of run.tokens. Raise it to train on.\n";
  }
  text += coverage_line(peers);
  text += "Checkpoints:\n";
  for (const ChildView& peer : peers) {
    // Those of earlier starts may well be there.
    text += fmt::format("  {:<12.12} {}\n", peer.name,
                        peer.wrote_checkpoint() ? peer.latest->checkpoint : "none of this start");
  }
  if (average) {
    text += fmt::format("  {:<12.12} {}{}\n", "average", average->checkpoint,
                        remark(*average, peers.size()));
  }
  return text;
}

std::string lonely_peers(std::span<const ChildView> peers) {
  std::string names;
  std::size_t count = 0;
  for (const ChildView& peer : peers) {
    const bool trained = peer.latest && peer.latest->train_seconds > 0;
    if (!trained || peer.latest->exchanges > 0) continue;
    names += (count == 0 ? "" : ", ") + peer.name;
    ++count;
  }
  if (count < 2) return {};
  return fmt::format(
      "Warning: {} trained without a single exchange; log.txt in their folders may tell why.\n",
      names);
}

void ProgressDisplay::show(std::span<const ChildView> peers) {
  if (columns_ == 0) {
    out_ << progress_table(peers, SIZE_MAX) << std::flush;
    return;
  }
  painter_.paint(progress_table(peers, columns_), columns_);
}

void ProgressDisplay::note(std::string_view line) {
  painter_.clear();  // show() paints a new one below
  out_ << printable(line) << std::endl;
}

}  // namespace starling::peer

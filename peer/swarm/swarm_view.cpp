#include "peer/swarm/swarm_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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
  return fmt::format("{:.0f}%", std::floor(100 * share));
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

constexpr std::string_view kProgressRow =
    "{:<12.12} {:<9.9} {:>7} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6} {:>9}\n";

std::string progress_row(const ChildView& peer) {
  if (!peer.latest) return fmt::format("{:<12.12} {}\n", peer.name, phase_of(peer));
  const PeerStatus& status = *peer.latest;
  const double ago = status.last_exchange_seconds_ago;
  return fmt::format(fmt::runtime(kProgressRow), peer.name, phase_of(peer), status.step,
                     done_text(status), human_count(status.tokens_per_second),
                     loss_text(status.loss), status.partners, human_bytes(status.bytes_out),
                     human_bytes(status.bytes_in), ago < 0 ? "-" : fmt::format("{:.0f} s", ago),
                     status.disagreement == 0 ? "-" : fmt::format("{:.2e}", status.disagreement));
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

std::string progress_table(std::span<const ChildView> peers) {
  std::string text = fmt::format(fmt::runtime(kProgressRow), "peer", "phase", "step", "done",
                                 "tok/s", "loss", "partners", "out", "in", "last", "disagree");
  for (const ChildView& peer : peers) text += progress_row(peer);
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
  if (average) text += fmt::format("  {:<12.12} {}\n", "average", average->checkpoint);
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
  const std::string table = progress_table(peers);
  if (columns_ == 0) {
    out_ << table << std::flush;
    return;
  }
  painter_.paint(table, columns_);
}

void ProgressDisplay::note(std::string_view line) {
  painter_.clear();  // show() paints a new one below
  out_ << printable(line) << std::endl;
}

}  // namespace starling::peer

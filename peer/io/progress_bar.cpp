#include "peer/io/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

constexpr Duration kRepaintInterval = std::chrono::milliseconds(250);
constexpr std::size_t kBarColumns = 20;

std::string guess(const Progress& progress) {
  // From the first moments it is worth nothing.
  if (progress.done == 0 || progress.seconds < 1) return "";
  const auto rest = static_cast<double>(progress.all - std::min(progress.done, progress.all));
  return time_left(progress.seconds * rest / static_cast<double>(progress.done));
}

}  // namespace

std::string progress_line(const Progress& progress, std::size_t columns) {
  const auto done = static_cast<double>(progress.done);
  const double share =
      progress.all > 0 ? std::min(1.0, done / static_cast<double>(progress.all)) : 0;
  const auto filled = static_cast<std::size_t>(share * kBarColumns);
  const bool bytes = progress.unit.empty();
  const auto amount = [bytes](double count) {
    return bytes ? human_bytes(count) : human_count(count);
  };
  std::string line = fmt::format("{:3.0f}% [{}{}] {} of {}", share * 100, std::string(filled, '#'),
                                 std::string(kBarColumns - filled, ' '), amount(done),
                                 amount(static_cast<double>(progress.all)));
  if (!bytes) line += fmt::format(" {}", progress.unit);
  if (progress.seconds > 0) line += fmt::format("  {}/s", amount(done / progress.seconds));
  if (const std::string left = guess(progress); !left.empty()) line += "  " + left;
  return line.substr(0, columns);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t all, Instant now) {
  if (columns_ == 0 || now - shown_ < kRepaintInterval) return;
  shown_ = now;
  painted_ = true;
  // One column less, or some terminals begin a new line.
  const Progress progress{done, all, to_seconds(now - start_), unit_};
  *out_ << "\r\x1b[K" << progress_line(progress, columns_ - 1) << std::flush;
}

void ProgressBar::clear() {
  if (painted_) *out_ << "\r\x1b[K" << std::flush;
  painted_ = false;
}

}  // namespace starling::peer

// The launcher's view of its peers, as text: a progress table while they train and a summary at the
// end. Pure functions from values to text, and ProgressDisplay, which puts the text on a terminal
// (repainted in place) or into a file (one block after another). Text that came from a child is
// made printable before it gets here or by printable(). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "peer/io/repainter.h"
#include "peer/status/status.h"

namespace starling::peer {

// A peer that the supervisor has started, as it tells of itself.
struct ChildView {
  std::string name;
  std::string state = "starting";  // of the process, until and after it speaks for itself
  bool running = true;             // then status.phase is shown instead, where there is a status
  std::optional<PeerStatus> first, latest;  // of the current process

  // Since it was started; it tells of one that it resumed as well.
  bool wrote_checkpoint() const { return latest && latest->checkpoints > 0; }
};

// What the averaged model adds to the summary; unset parts are left out.
struct AverageView {
  std::string checkpoint;
  std::string kept;       // the name of the average that was there before; empty: there was none
  std::size_t peers = 0;  // whose checkpoints it is made of
  std::uint64_t tokens = 0;
  double validation_loss = 0;
};

// One heading and one line per peer; every line ends with a line feed. Where the lines would be
// wider than `columns`, those that say least are left out.
std::string progress_table(std::span<const ChildView> peers, std::size_t columns);
std::string summary_table(std::span<const ChildView> peers,
                          const std::optional<AverageView>& average);

// Names those that trained and exchanged nothing; empty unless there are two, who had each other.
std::string lonely_peers(std::span<const ChildView> peers);

// Tokens per second of training time, over everything seen of the current process.
double mean_tokens_per_second(const ChildView& peer);
// Largest over smallest validation loss, minus one. Empty with fewer than two measured peers.
std::optional<double> validation_spread(std::span<const ChildView> peers);

class ProgressDisplay {
 public:
  // columns > 0: a terminal that wide; 0: no terminal.
  ProgressDisplay(std::ostream& out, std::size_t columns)
      : out_(out), columns_(columns), painter_(out) {}

  void show(std::span<const ChildView> peers);
  void note(std::string_view line);  // stays visible; the next table comes below it

 private:
  std::ostream& out_;
  std::size_t columns_;
  Repainter painter_;
};

}  // namespace starling::peer

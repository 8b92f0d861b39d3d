// PartReader: in which order this peer reads the windows of its training data. A part is a random
// sample of the data: it has cells of as many tokens as the model has context, drawn from all of
// it, the same for all peers. This peer reads one part at a time, its windows in a random order of
// its own without repeating any; a part read to its end is finished and the next is chosen
// (gossip/part_choice.h). So every batch holds text from all over the data, as if windows were
// drawn from all of it, and over a pass every token is read about once.
//
// The order is a function of seed, stream and what was learned of others: alone, of seed and stream
// only, also over restarts. All cells begin further on in each pass, so that not always the same
// tokens share a window. Allocates at construction only. Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "gossip/part_choice.h"
#include "peer/files/data_parts.h"

namespace starling::peer {

struct ReadingPlan {
  std::uint64_t space = 0;  // digest of the data and of how it is cut
  std::uint64_t tokens = 0;
  std::uint64_t cell_tokens = 1;  // tokens >= parts * cell_tokens, or there is one part
  std::uint16_t parts = 1;
  std::uint64_t window_tokens = 1;
  std::uint64_t seed = 0;    // data.seed, equal for all peers of a run
  std::uint64_t stream = 0;  // who reads: the peer's name
};

class PartReader {
 public:
  explicit PartReader(const ReadingPlan& plan);

  // The token at which the next window begins. Ends of the data are not its business.
  std::uint64_t next();
  void learn(const PartNews& news) { choice_.learn(news.part, news.view); }

  // What next() has finished or begun since the last call.
  std::optional<std::uint16_t> take_finished();
  bool take_changed();
  BoundedList<std::uint16_t, gossip::kPartsHeldMax> held() const;

  void save(DataPosition& position) const;
  // False if it is the position in other data; then this reader starts anew.
  [[nodiscard]] bool restore(const DataPosition& position);

  const gossip::PartChoice& choice() const { return choice_; }
  std::uint64_t finished() const { return finished_parts_; }  // by this peer, in all its lives

 private:
  std::uint64_t first_cell(std::uint32_t part) const { return cells_ * part / plan_.parts; }
  std::uint64_t windows_of(std::uint16_t part) const;
  std::uint64_t token_of(const OpenPart& open, std::uint64_t window) const;
  void begin_part();

  const ReadingPlan plan_;
  const std::uint64_t cells_;
  gossip::PartChoice choice_;
  std::optional<OpenPart> open_;  // none before the first window
  std::uint64_t drawn_ = 0;
  std::uint64_t finished_parts_ = 0;
  std::optional<std::uint16_t> finished_;
  bool changed_ = false;
};

// Number `index` of a random permutation of 0 .. count-1.
std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key);

}  // namespace starling::peer

// PartReader: in which order this peer reads the windows of its training data. It holds a few parts
// at a time (data_parts.h), draws each window from one of them at random, and within a part takes
// the windows in a random order without repeating any; a part read to its end is finished and the
// next is chosen (gossip/part_choice.h). So one batch holds text from several places, and over a
// pass every window is read once.
//
// The order is a function of seed, stream and what was learned of others: alone, of seed and stream
// only, also over restarts. Windows of a part begin at a random offset in each pass, so that not
// always the same tokens share one. Allocates at construction only. Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.h"
#include "gossip/part_choice.h"
#include "peer/data_parts.h"

namespace starling::peer {

struct ReadingPlan {
  std::uint64_t space = 0;  // digest of the data
  std::uint64_t tokens = 0;
  std::uint16_t parts = 1;  // tokens >= parts
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
  std::uint64_t first_token(std::uint32_t part) const { return plan_.tokens * part / plan_.parts; }
  std::uint64_t windows_of(std::uint16_t part) const;
  void open_more();

  const ReadingPlan plan_;
  const Rng dice_;  // never advanced: each window forks from it
  const std::size_t open_max_;
  gossip::PartChoice choice_;
  BoundedList<OpenPart, gossip::kPartsHeldMax> open_;
  std::uint64_t drawn_ = 0;
  std::uint64_t finished_parts_ = 0;
  std::optional<std::uint16_t> finished_;
  bool changed_ = false;
};

// Number `index` of a random permutation of 0 .. count-1.
std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key);

}  // namespace starling::peer

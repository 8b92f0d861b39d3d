// ProgressBar: one line on a terminal that says how far a long job is, how fast, and how long it
// will take; nothing where there is no terminal. Text is made by a pure function. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "base/time.h"

namespace starling::peer {

struct Progress {
  std::uint64_t done = 0, all = 0;
  double seconds = 0;          // since the start
  std::string_view unit = {};  // of what is done; empty: bytes
};

// Never more than `columns` characters, without a line feed.
std::string progress_line(const Progress& progress, std::size_t columns);

class ProgressBar {
 public:
  // `columns` of the terminal; 0: `out` is none. `out` must outlive the bar, and so must `unit`.
  ProgressBar(std::ostream& out, std::size_t columns, Instant start, std::string_view unit = {})
      : out_(&out), columns_(columns), start_(start), shown_(start), unit_(unit) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Paints at most a few times a second.
  void update(std::uint64_t done, std::uint64_t all, Instant now);
  // Takes the line away again.
  void clear();

 private:
  std::ostream* out_;  // never null
  std::size_t columns_;
  Instant start_, shown_;
  std::string_view unit_;
  bool painted_ = false;
};

}  // namespace starling::peer

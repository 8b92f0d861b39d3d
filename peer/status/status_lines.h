// StatusLines: lines for a reader that may be slow, stopped or gone, as `starling swarm` when it is
// suspended. Never waits for it, where it reads a pipe: what does not fit leaves later, and of the
// lines that come meanwhile only the newest, for each tells all. Thread: one owner, who alone
// writes to the descriptor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace starling::peer {

class StatusLines {
 public:
  explicit StatusLines(int descriptor) : descriptor_(descriptor) {}  // which stays the caller's

  void tell(std::string_view line);  // without its end
  // The last one is what somebody goes by: for this it waits, but not for long.
  void finish();

 private:
  void write_some(int milliseconds);

  int descriptor_;
  std::string under_way_;  // a line, of which written_ bytes have left
  std::size_t written_ = 0;
  std::string newest_;  // behind that; empty: none
};

}  // namespace starling::peer

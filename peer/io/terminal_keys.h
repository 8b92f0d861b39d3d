// TerminalKeys: single keys, as they are pressed, of a terminal that some picture is painted on.
//
// While it lives the terminal neither waits for a line nor shows what is typed; how it was comes
// back at the end, and where SIGINT, SIGQUIT, SIGTERM or SIGHUP ends the process (where SIGTSTP
// stops it, shells see to that). In the background it has no keys. A descriptor that is no
// terminal, or that of another process group at the moment (`command &`), is left alone and has no
// keys. One at a time; one thread.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>

namespace starling::peer {

class TerminalKeys {
 public:
  explicit TerminalKeys(int descriptor);
  ~TerminalKeys();
  TerminalKeys(const TerminalKeys&) = delete;
  TerminalKeys& operator=(const TerminalKeys&) = delete;

  static constexpr char kEnd = '\x04';  // also where the terminal is gone

  // Nothing when the time is up, which it waits for in any case where there are no keys.
  std::optional<char> next_within(std::chrono::milliseconds time);

 private:
  void take_keys() const;

  int descriptor_;  // -1: left alone
};

}  // namespace starling::peer

// What a lost terminal means: SIGHUP ends a program as SIGTERM does, unless whoever started it (as
// nohup does) has set it to be ignored. It often comes twice, from the kernel and from the shell,
// so a second one is not taken for impatience. Asked before any handler is set.
#pragma once

#include <signal.h>

namespace starling::peer {

inline bool hangup_is_ignored() {
  struct sigaction now {};
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace starling::peer

// PeerStatus: what one peer tells about itself about once a second, as one line of JSON on
// standard output when `starling peer --status-json` asks for it. `starling swarm` reads these
// lines from its child processes. Unknown keys are ignored, missing ones keep their default, so
// that versions can differ. Bytes from a child are parsed as foreign: a bad line is an Error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::peer {

struct PeerStatus {
  std::string peer;                // its name in the run folder
  std::string phase = "training";  // "joining", "waiting", "training", "closing", "done"
  std::uint64_t step = 0;
  std::uint64_t tokens = 0, tokens_budget = 0;
  double swarm_tokens = 0;
  double tokens_per_second = 0;     // over the last steps
  double loss = 0;                  // of the last step
  double validation_loss = 0;       // 0: not measured yet
  std::uint32_t partners = 0;       // live peers it may exchange with
  bool dialable = false;            // it says that others can dial it
  std::uint32_t relays = 0;         // who forward to it, as it cannot be dialled
  std::uint32_t relay_holders = 0;  // for whom it forwards
  std::uint64_t exchanges = 0, exchanges_declined = 0, exchanges_failed = 0;
  std::uint64_t bytes_out = 0, bytes_in = 0;
  double last_exchange_seconds_ago = -1;  // < 0: none yet
  double disagreement = 0;                // running RMS of phi_partner - phi
  double displacement = 0;                // running RMS of theta - phi at the outer step
  double held_seconds = 0, train_seconds = 0;
  std::uint64_t parts = 0;                        // of its training data
  std::uint64_t parts_never = 0, parts_once = 0;  // read by anybody, as far as it knows
  std::uint64_t parts_read = 0;                   // by itself
  std::uint64_t checkpoints = 0, checkpoints_failed = 0;
  std::string checkpoint;  // path of the newest one
};

nlohmann::json to_object(const PeerStatus& status);
std::string to_json(const PeerStatus& status);  // one line, no line feed
// For people who read a log: how far it is, what it lost and how long it will take. One line.
std::string to_line(const PeerStatus& status);
Result<PeerStatus> parse_status(std::string_view line);

}  // namespace starling::peer

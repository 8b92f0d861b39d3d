// `starling doctor`: before a run, is this node fit for it? Looks at the configuration, the key and
// whom it trusts, the data, the machine and its addresses, and prints what it found; whatever
// failed, or may fail, comes with the setting or the command that mends it. Changes nothing: no
// folder, no key and no file is made.
//
// Blocks; one thread. `out` gets each group of findings as soon as it is known.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct DoctorOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;  // "section.key=value"
  bool json = false;                   // one line with everything, at the end
  bool quick = false;                  // of data and checkpoints no more than headers is read
};

// An error: something failed; how many stands in it.
Status run_doctor(const DoctorOptions& options, std::ostream& out);

}  // namespace starling::peer

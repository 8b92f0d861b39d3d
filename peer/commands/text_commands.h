// What the commands on texts say while they work and when they are done: starling prepare and
// starling tokenizer train. Blocking; for the command line.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include "base/result.h"
#include "peer/files/prepare.h"
#include "peer/files/tokenizer_training.h"

namespace starling::peer {

struct Console {
  std::ostream& out;        // for results
  std::ostream& notes;      // for warnings and what passes
  std::size_t columns = 0;  // of the terminal that `notes` is; 0: it is none
};

Status run_prepare(PrepareOptions options, const std::string& tokenizer, const Console& console);
Status run_tokenizer_training(TokenizerTrainingOptions options, const Console& console);

}  // namespace starling::peer

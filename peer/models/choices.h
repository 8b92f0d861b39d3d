// choices: how often a model finds the right one of several endings likelier than the others. One
// JSON object per line, as HellaSwag has it, or as tasks of lm-evaluation-harness do:
//
//   {"ctx": "She puts the", "endings": ["cup down.", "sky down."], "label": 0}
//   {"query": ..., "choices": [...], "gold": 0}
//
// An ending's score is the likelihood of its tokens given those of the context. As in the harness:
// the text is context, space, ending; spaces that end the context go to the ending; the ending's
// tokens are those of the whole text behind as many as the context has; a context that is too long
// loses its beginning. The label may be a number in quotes. Further fields are passed over; nothing
// is changed in the texts.
//
// Blocking; for the command line. Files are foreign: errors name the file and the line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "peer/files/stored_model.h"
#include "peer/models/model_runner.h"

namespace starling::peer {

struct ChoicesOptions {
  std::filesystem::path checkpoint{};
  std::filesystem::path file{};
  std::string tokenizer{};  // as open_tokenizer() takes it; empty: the model's own
  RunnerChoice runner{};
  std::function<void(std::uint64_t done, std::uint64_t all)> progress{};  // in questions
};

struct ChoicesReport {
  std::uint64_t questions = 0, endings = 0;
  std::uint64_t right = 0;           // by the likelihood of the whole ending
  std::uint64_t right_per_byte = 0;  // by its logarithm divided by the ending's length

  double accuracy() const { return of(right); }
  double accuracy_per_byte() const { return of(right_per_byte); }
  // Of a mean of ones and zeros over a sample of these questions; 0 of a single one.
  double standard_error(double accuracy) const;

 private:
  double of(std::uint64_t count) const {
    return static_cast<double>(count) / static_cast<double>(questions);
  }
};

Result<ChoicesReport> evaluate_choices(const ChoicesOptions& options);

}  // namespace starling::peer

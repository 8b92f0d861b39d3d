#include "peer/files/encode_crew.h"

#include <algorithm>
#include <string_view>
#include <thread>

#include "base/assert.h"
#include "model/tokenizers/unicode.h"

namespace starling::peer {

namespace {

void count_invalid(const EncodeTask::Part& part, InvalidBytes& invalid) {
  for (std::size_t at = model::find_invalid(part.text); at < part.text.size();
       at = model::find_invalid(part.text, at + 1)) {
    ++invalid.count;
    if (!invalid.first) invalid.first = part.offset + at;
  }
}

}  // namespace

EncodeCrew::EncodeCrew(const model::Tokenizer& tokenizer, std::size_t threads)
    : tokenizer_(&tokenizer) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, threads); ++i) {
    // Anybody may have written the text: names of special tokens in it are text.
    encoders_.push_back(tokenizer.encoder(model::SpecialTokens::kAsText));
  }
}

void EncodeCrew::encode(std::span<EncodeTask> tasks) {
  STARLING_ASSERT(tasks.size() <= encoders_.size());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    others.emplace_back(
        [this, &task = tasks[i], &encoder = *encoders_[i]] { encode_one(task, encoder); });
  }
  if (!tasks.empty()) encode_one(tasks[0], *encoders_[0]);
}

void EncodeCrew::encode_one(EncodeTask& task, model::TokenEncoder& encoder) const {
  const bool every_byte_is_text = tokenizer_->name() == model::ByteTokenizer::kName;
  const auto begin = tokenizer_->begin_token();
  const auto end = tokenizer_->end_token();
  for (const EncodeTask::Part& part : task.parts) {
    // Something has to stand between two documents.
    if (part.begins && part.follows && !begin && !end) encoder.encode_rest("\n", task.tokens);
    if (part.begins && begin) task.tokens.push_back(*begin);
    if (part.begins) {
      encoder.encode(part.text, task.tokens);
    } else {
      encoder.encode_rest(part.text, task.tokens);
    }
    if (part.ends && end) task.tokens.push_back(*end);
    if (!every_byte_is_text) count_invalid(part, task.invalid);
  }
}

}  // namespace starling::peer

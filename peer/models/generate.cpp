// generate() of model_commands.h.
#include <algorithm>
#include <cmath>
#include <utility>

#include "peer/models/model_commands.h"
#include "peer/models/model_runner.h"

namespace starling::peer {

namespace {

// The tokens said so far, and what the model makes of them.
class Continuation {
 public:
  Continuation(ModelRunner& runner, std::int64_t window, std::vector<std::int32_t> tokens)
      : runner_(runner), window_(static_cast<std::size_t>(window)), tokens_(std::move(tokens)) {}

  void push(std::int32_t token) { tokens_.push_back(token); }

  // Only what is new is computed. Where that does not fit the window any more, the older half of it
  // is forgotten and the rest computed again: on average a token costs no more for it.
  void next_logits(std::span<float> logits) {
    auto fresh = std::span<const std::int32_t>(tokens_).subspan(seen_);
    const auto kept = static_cast<std::size_t>(runner_.llama.sequence_tokens());
    if (kept + fresh.size() > window_) {
      runner_.llama.rewind(0);
      fresh = std::span<const std::int32_t>(tokens_).last(
          std::min(tokens_.size(), std::max<std::size_t>(1, window_ / 2)));
    }
    runner_.llama.extend(runner_.weights(), fresh, logits);
    seen_ = tokens_.size();
  }

 private:
  ModelRunner& runner_;
  std::size_t window_, seen_ = 0;
  std::vector<std::int32_t> tokens_;
};

// Tokens become text here, in whole characters.
class TextStream {
 public:
  using Write = std::function<void(std::string_view)>;
  // `begins`: nothing was written before.
  TextStream(const model::Tokenizer& tokenizer, bool begins, const Write& write)
      : tokenizer_(tokenizer), begins_(begins), write_(write) {}

  void put(std::int32_t token) {
    text_ += tokenizer_.text_of(token);
    if (begins_ && !text_.empty()) {
      // The space that the tokenizer has before every text.
      if (tokenizer_.puts_space_before() && text_.front() == ' ') text_.erase(0, 1);
      begins_ = false;
    }
    const std::size_t complete = model::complete_characters(text_);
    if (complete == 0) return;
    write_(std::string_view(text_).substr(0, complete));
    text_.erase(0, complete);
  }
  // What has only begun will never be a character.
  void end() {
    if (!text_.empty()) write_(text_);
  }

 private:
  const model::Tokenizer& tokenizer_;
  bool begins_;
  const Write& write_;
  std::string text_;  // not written yet
};

bool is_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace

Status generate(const GenerateOptions& options,
                const std::function<void(std::string_view)>& write) {
  auto stored = open_model(options.checkpoint);
  if (!stored.ok()) return std::move(stored).error();
  const model::LlamaConfig& config = stored.value().config.model;
  auto file = tokenizer_of(stored.value(), options.tokenizer);
  if (!file.ok()) return std::move(file).error();
  const model::Tokenizer& tokenizer = *file.value().tokenizer;
  std::vector<std::int32_t> tokens =
      opening_tokens(tokenizer, options.prompt, model::SpecialTokens::kRecognised);
  const std::int64_t window = std::min(
      config.context,
      std::ssize(tokens) + std::min(std::max<std::int64_t>(options.tokens, 0), config.context));
  auto runner = load_runner(stored.value(), options.runner, window, {1});
  if (!runner.ok()) return std::move(runner).error();

  write(options.prompt);
  Continuation text(runner.value(), window, std::move(tokens));
  TextStream stream(tokenizer, options.prompt.empty(), write);
  std::vector<float> logits(static_cast<std::size_t>(config.vocabulary));
  // A model may have more tokens than its tokenizer, for the sake of a round number.
  const auto drawn_from = std::span(logits).first(static_cast<std::size_t>(tokenizer.vocabulary()));
  Rng rng(options.seed);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    text.next_logits(logits);
    if (!is_finite(logits)) {
      return Error(ErrorCode::kCorrupt, options.checkpoint.string() + ": the model diverged");
    }
    const std::int32_t token = sample_token(drawn_from, options.sampling, rng);
    if (token == tokenizer.end_token()) break;
    text.push(token);
    stream.put(token);
  }
  stream.end();
  return ok_status();
}

}  // namespace starling::peer

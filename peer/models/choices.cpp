#include "peer/models/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "peer/io/file_io.h"
#include "peer/models/model_runner.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;
constexpr std::size_t kEndingsMax = 64;

struct Ending {
  std::vector<std::int32_t> tokens;
  std::size_t bytes = 0;
};

struct Question {
  std::size_t line = 0;
  std::vector<std::int32_t> context;
  std::vector<Ending> endings;
  std::size_t label = 0;
};

Error wrong(std::string_view what) { return Error(ErrorCode::kCorrupt, std::string(what)); }

// Null: neither name is there.
const json* field(const json& object, const char* name, const char* other) {
  for (const char* one : {name, other}) {
    const auto found = object.find(one);
    if (found != object.end()) return &*found;
  }
  return nullptr;
}

std::optional<std::size_t> label_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::size_t>();
  if (!value.is_string()) return std::nullopt;
  return parse_number<std::size_t>(value.get_ref<const std::string&>());
}

// The tokens of both together behind as many as the context has alone; where that has nothing but
// the model's beginning, all of the ending's.
Ending ending_of(const model::Tokenizer& tokenizer, std::string_view context,
                 std::size_t context_tokens, const std::string& text) {
  const std::size_t last = context.find_last_not_of(' ');
  const std::string_view kept = context.substr(0, last + 1);  // npos + 1 is 0
  const std::string rest = std::string(context.substr(kept.size())) + " " + text;
  Ending ending{.tokens = {}, .bytes = text.size()};
  if (kept.empty()) {
    tokenizer.encoder(model::SpecialTokens::kAsText)->encode(rest, ending.tokens);
    return ending;
  }
  auto whole = opening_tokens(tokenizer, std::string(kept) + rest, model::SpecialTokens::kAsText);
  if (whole.size() > context_tokens) {
    ending.tokens.assign(whole.begin() + static_cast<std::ptrdiff_t>(context_tokens), whole.end());
  } else {  // the two melt into one token
    tokenizer.encoder(model::SpecialTokens::kAsText)->encode_rest(rest, ending.tokens);
  }
  return ending;
}

Result<Question> parse_question(std::string_view line, const model::Tokenizer& tokenizer) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return wrong("no JSON object");
  const json* context = field(object, "ctx", "query");
  const json* endings = field(object, "endings", "choices");
  const json* label = field(object, "label", "gold");
  if (context == nullptr || !context->is_string()) {
    return wrong("needs a text \"ctx\" (or \"query\")");
  }
  if (endings == nullptr || !endings->is_array() || endings->size() < 2 ||
      endings->size() > kEndingsMax) {
    return wrong(fmt::format("needs 2 to {} texts in \"endings\" (or \"choices\")", kEndingsMax));
  }
  const auto right = label == nullptr ? std::nullopt : label_of(*label);
  if (!right || *right >= endings->size()) {
    return wrong(fmt::format("needs a \"label\" (or \"gold\") from 0 to {}", endings->size() - 1));
  }
  const auto& text = context->get_ref<const std::string&>();
  Question question;
  question.label = *right;
  question.context = opening_tokens(tokenizer, text.substr(0, text.find_last_not_of(' ') + 1),
                                    model::SpecialTokens::kAsText);
  for (const json& ending : *endings) {
    if (!ending.is_string() || ending.get_ref<const std::string&>().empty()) {
      return wrong("has an ending that is no text, or empty");
    }
    question.endings.push_back(
        ending_of(tokenizer, text, question.context.size(), ending.get<std::string>()));
    if (question.endings.back().tokens.empty()) {
      return wrong("has an ending that is no token to this model");
    }
  }
  return question;
}

Error at_line(const std::filesystem::path& file, std::size_t line, Error error) {
  return std::move(error).with_context(fmt::format("{}:{}", file.string(), line));
}

Result<std::vector<Question>> read_questions(const std::filesystem::path& file,
                                             const model::Tokenizer& tokenizer) {
  auto text = read_text(file, kFileBytesMax);
  if (!text.ok()) return std::move(text).error();
  std::string_view rest = text.value();
  std::vector<Question> questions;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto question = parse_question(line, tokenizer);
    if (!question.ok()) return at_line(file, number, std::move(question).error());
    questions.push_back(std::move(question).value());
    questions.back().line = number;
  }
  if (questions.empty()) return Error(ErrorCode::kNotFound, file.string() + " holds no question");
  return questions;
}

// The tokens of the longest question, as far as the model can take them.
std::int64_t window_for(std::span<const Question> questions, std::int64_t context) {
  std::size_t longest = 1;
  for (const Question& question : questions) {
    for (const Ending& ending : question.endings) {
      longest = std::max(longest, question.context.size() + ending.tokens.size() - 1);
    }
  }
  return std::min(context, static_cast<std::int64_t>(longest));
}

// The logarithm of an ending's likelihood. What endings of one question share is computed once:
// `kept` is how many tokens of its context, counted from its end, the model has before the last.
double score(ModelRunner& runner, const Question& question, const Ending& ending,
             std::size_t window, std::optional<std::size_t>& kept) {
  // The last token of an ending is followed by nothing.
  const std::size_t room = window + 1 - ending.tokens.size();
  const auto context = std::span(question.context).last(std::min(question.context.size(), room));
  const auto before = context.first(context.size() - 1);
  if (kept == before.size()) {
    runner.llama.rewind(std::ssize(before));
  } else {
    runner.llama.rewind(0);
    if (!before.empty()) runner.llama.extend(runner.weights(), before);
    kept = before.size();
  }
  std::vector<std::int32_t> inputs = {context.back()};
  inputs.insert(inputs.end(), ending.tokens.begin(), ending.tokens.end() - 1);
  return -runner.llama.extend_losses(runner.weights(), {inputs, ending.tokens});
}

}  // namespace

double ChoicesReport::standard_error(double accuracy) const {
  if (questions < 2) return 0;
  return std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(questions - 1));
}

Result<ChoicesReport> evaluate_choices(const ChoicesOptions& options) {
  auto stored = open_model(options.checkpoint);
  if (!stored.ok()) return std::move(stored).error();
  auto tokenizer = tokenizer_of(stored.value(), options.tokenizer);
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  auto questions = read_questions(options.file, *tokenizer.value().tokenizer);
  if (!questions.ok()) return std::move(questions).error();
  const std::int64_t window = window_for(questions.value(), stored.value().config.model.context);
  auto runner = load_runner(stored.value(), options.runner, window, {1});
  if (!runner.ok()) return std::move(runner).error();

  ChoicesReport report;
  for (const Question& question : questions.value()) {
    std::vector<double> scores, per_byte;
    std::optional<std::size_t> kept;
    for (const Ending& ending : question.endings) {
      if (std::ssize(ending.tokens) > window) {
        return at_line(options.file, question.line,
                       wrong(fmt::format("has an ending of {} tokens, more than the {} that the "
                                         "model can take",
                                         ending.tokens.size(), window)));
      }
      scores.push_back(
          score(runner.value(), question, ending, static_cast<std::size_t>(window), kept));
      if (!std::isfinite(scores.back())) {
        return Error(ErrorCode::kCorrupt, options.checkpoint.string() + ": the model diverged");
      }
      per_byte.push_back(scores.back() / static_cast<double>(ending.bytes));
    }
    // Of equals the first.
    const auto best = [](const std::vector<double>& of) {
      return static_cast<std::size_t>(std::max_element(of.begin(), of.end()) - of.begin());
    };
    ++report.questions;
    report.endings += scores.size();
    if (best(scores) == question.label) ++report.right;
    if (best(per_byte) == question.label) ++report.right_per_byte;
    if (options.progress) options.progress(report.questions, questions.value().size());
  }
  return report;
}

}  // namespace starling::peer

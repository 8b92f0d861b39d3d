#include "peer/models/choices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "peer/models/model_runner.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/model_samples.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

Written longer_model(const ScratchFolder& folder) {
  const std::vector<std::string> overrides = {
      "model.width=16", "model.layers=2",   "model.heads=2",     "model.kv_heads=1", "model.ffn=24",
      "batch.tokens=8", "model.context=48", "outer.fragments=2", "batch.sequences=2"};
  auto config = parse_config("", "test", overrides);
  REQUIRE(config.ok());
  auto layout = model::ParamLayout::plan(config.value().model, 2);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  model::initialise(layout.value(), 3, contents.fast);
  for (float& value : contents.fast) value *= 6;  // opinions
  contents.tokenizer = "bytes";
  return write(folder, "model.ckpt", config.value(), std::move(contents));
}

// The logarithm of the likelihood of `ending` behind `context`, byte by byte and from the start.
double likelihood(const Written& model, const std::string& context, const std::string& ending) {
  auto stored = open_model(model.path);
  REQUIRE(stored.ok());
  auto runner = load_runner(stored.value(), {.device = "cpu"}, 48, {1});
  REQUIRE(runner.ok());
  std::vector<std::int32_t> tokens(context.begin(), context.end());
  if (tokens.empty()) tokens.push_back('\n');  // what stands before a text of bytes
  std::vector<float> logits(256);
  double sum = 0;
  for (const char letter : ending) {
    const std::size_t count = std::min<std::size_t>(48, tokens.size());
    runner.value().llama.next_token_logits(runner.value().weights(), std::span(tokens).last(count),
                                           logits);
    double denominator = 0;
    for (const float logit : logits) denominator += std::exp(double{logit});
    sum += double{logits[static_cast<std::size_t>(letter)]} - std::log(denominator);
    tokens.push_back(letter);
  }
  return sum;
}

// The right one by the sum, and by the sum for each byte.
std::string question(const Written& model, const std::string& context,
                     const std::vector<std::string>& endings, bool per_byte) {
  std::size_t best = 0;
  double highest = -1e300;
  std::string list;
  const std::string kept = context.substr(0, context.find_last_not_of(' ') + 1);
  for (std::size_t i = 0; i < endings.size(); ++i) {
    double score = likelihood(model, kept, context.substr(kept.size()) + " " + endings[i]);
    if (per_byte) score /= static_cast<double>(endings[i].size());
    if (score > highest) best = i;
    highest = std::max(score, highest);
    list += (i == 0 ? "\"" : ", \"") + endings[i] + "\"";
  }
  // Both spellings, and a label in quotes.
  if (per_byte) {
    return "{\"query\": \"" + context + "\", \"choices\": [" + list +
           "], \"gold\": " + std::to_string(best) + "}\n";
  }
  return "{\"ctx\": \"" + context + "\", \"endings\": [" + list + "], \"label\": \"" +
         std::to_string(best) + "\", \"ind\": 1}\n";
}

const std::vector<std::vector<std::string>> kEndings = {
    {"a", "bb and more of it", "c c"},
    {"one", "two", "three", "four", "five"},
    {"it is so", "it is not so", "nobody knows whether it is so"},
    {"x", "yy"},
    {"who left", "whom it left", "nobody"},
};
const std::vector<std::string> kContexts = {"The first", "Then comes  ", "A",
                                            "In the end there was", ""};

}  // namespace

TEST_CASE("the endings that a model finds likeliest are found, shared context or not") {
  const ScratchFolder folder;
  const Written model = longer_model(folder);
  for (const bool per_byte : {false, true}) {
    CAPTURE(per_byte);
    std::string text;
    for (std::size_t i = 0; i < kEndings.size(); ++i) {
      text += question(model, kContexts[i], kEndings[i], per_byte) + "\n";
    }
    write_file(folder / "questions", text);
    auto report = evaluate_choices({.checkpoint = model.path, .file = folder / "questions"});
    REQUIRE(report.ok());
    CHECK(report.value().questions == 5);
    CHECK(report.value().endings == 16);
    CHECK((per_byte ? report.value().accuracy_per_byte() : report.value().accuracy()) == 1);
    CHECK(report.value().standard_error(1) == 0);
  }
}

TEST_CASE("a context that is too long loses its beginning, and too long an ending is an error") {
  const ScratchFolder folder;
  const Written model = longer_model(folder);
  // 48 positions: the last token of an ending needs none, so that so much of the context is seen.
  const std::vector<std::string> endings = {"the end", "it was over"};
  const std::string context =
      std::string(1000, 'z') + "and so it went on for a very long time until";
  std::vector<double> scores;
  for (const std::string& ending : endings) {
    const std::size_t room = 49 - (ending.size() + 1);
    scores.push_back(likelihood(model, context.substr(context.size() - room), " " + ending));
  }
  const std::string label = scores[0] > scores[1] ? "0" : "1";
  write_file(folder / "questions", "{\"ctx\":\"" + context + "\",\"endings\":[\"" + endings[0] +
                                       "\",\"" + endings[1] + "\"],\"label\":" + label + "}\n");
  auto report = evaluate_choices({.checkpoint = model.path, .file = folder / "questions"});
  REQUIRE(report.ok());
  CHECK(report.value().right == 1);

  const std::string longest(47, 'q');  // and its space
  write_file(folder / "questions",
             "\n{\"ctx\":\"a\",\"endings\":[\"b\",\"" + longest + "\"],\"label\":0}\n");
  CHECK(evaluate_choices({.checkpoint = model.path, .file = folder / "questions"}).ok());
  write_file(folder / "questions",
             "\n{\"ctx\":\"a\",\"endings\":[\"b\",\"" + longest + "q\"],\"label\":0}\n");
  auto refused = evaluate_choices({.checkpoint = model.path, .file = folder / "questions"});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("questions:2: has an ending of 49 tokens") !=
        std::string::npos);
}

TEST_CASE("a line that is no question is named, with what it lacks") {
  const ScratchFolder folder;
  const Written model = longer_model(folder);
  const std::string good = "{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":1}\n";
  struct Case {
    std::string line, says;
  };
  const std::vector<Case> cases = {
      {"{", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"endings":["b","c"],"label":1})", "\"ctx\""},
      {R"({"ctx":5,"endings":["b","c"],"label":1})", "\"ctx\""},
      {R"({"ctx":"a","label":1})", "\"endings\""},
      {R"({"ctx":"a","endings":["b"],"label":0})", "2 to 64"},
      {R"({"ctx":"a","endings":["b",""],"label":0})", "no text, or empty"},
      {R"({"ctx":"a","endings":["b",7],"label":0})", "no text, or empty"},
      {R"({"ctx":"a","endings":["b","c"]})", "from 0 to 1"},
      {R"({"ctx":"a","endings":["b","c"],"label":2})", "from 0 to 1"},
      {R"({"ctx":"a","endings":["b","c"],"label":-1})", "from 0 to 1"},
      {R"({"ctx":"a","endings":["b","c"],"label":"1x"})", "from 0 to 1"},
      {R"({"ctx":"a","endings":["b","c"],"label":""})", "from 0 to 1"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.line);
    write_file(folder / "questions", good + "\n" + bad.line + "\n" + good);
    auto report = evaluate_choices({.checkpoint = model.path, .file = folder / "questions"});
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().message().find((folder / "questions").string() + ":3: ") == 0);
    CHECK(report.error().message().find(bad.says) != std::string::npos);
  }
  write_file(folder / "questions", "\n \n");
  CHECK_FALSE(evaluate_choices({.checkpoint = model.path, .file = folder / "questions"}).ok());
  CHECK_FALSE(evaluate_choices({.checkpoint = model.path, .file = folder / "absent"}).ok());
}

TEST_CASE("an ending that is no token to the model is named") {
  const ScratchFolder folder;
  PeerConfig config = small_config();
  config.model.vocabulary = 420;
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  const Written model = write(folder, "model.ckpt", config, std::move(contents));
  write_file(folder / "tokenizer.model", starling::testing::sample_model({}));
  const auto evaluated = [&](const std::string& ending) {
    write_file(folder / "questions",
               "\n{\"ctx\":\"ta\",\"endings\":[\"ri\",\"" + ending + "\"],\"label\":0}\n");
    return evaluate_choices({.checkpoint = model.path,
                             .file = folder / "questions",
                             .tokenizer = (folder / "tokenizer.model").string()});
  };
  auto sound = evaluated("mon");
  REQUIRE_MESSAGE(sound.ok(), sound.error().message());
  auto refused = evaluated("  ");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message() ==
        (folder / "questions").string() + ":2: has an ending that is no token to this model");
}

TEST_CASE("the standard error is that of a mean of ones and zeros") {
  ChoicesReport report;
  report.questions = 101;
  CHECK(report.standard_error(0.5) == doctest::Approx(0.05));
  report.questions = 1;
  CHECK(report.standard_error(1) == 0);
}

}  // namespace starling::peer

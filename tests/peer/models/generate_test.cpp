// generate() of model_commands.h.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peer/models/model_commands.h"
#include "peer/models/model_runner.h"
#include "tests/peer/model_samples.h"

namespace starling::peer {
namespace {

std::string drawn_text(GenerateOptions options) {
  std::string text;
  Status outcome = generate(options, [&text](std::string_view piece) { text += piece; });
  REQUIRE(outcome.ok());
  return text;
}

TEST_CASE("weights that a checkpoint does not hold are an error that names them") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  Status outcome =
      generate({.checkpoint = a.path, .prompt = "x", .runner = {.weights = WeightsKind::kSlow}},
               [](std::string_view) {});
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().code() == ErrorCode::kNotFound);
  CHECK(outcome.error().message().find("slow") != std::string::npos);
}

TEST_CASE("a seed gives one text and another seed another one") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  GenerateOptions options{.checkpoint = a.path, .prompt = "Hello", .tokens = 30};
  const std::string text = drawn_text(options);
  CHECK(text.size() == 35);
  CHECK(text.substr(0, 5) == "Hello");
  CHECK(drawn_text(options) == text);
  options.seed = 2;
  CHECK(drawn_text(options) != text);
}

TEST_CASE("a prompt may be empty or longer than the context") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  CHECK(drawn_text({.checkpoint = a.path, .prompt = "", .tokens = 3}).size() == 3);
  const std::string prompt(50, 'y');
  const std::string text = drawn_text({.checkpoint = a.path, .prompt = prompt, .tokens = 3});
  CHECK(text.size() == 53);
}

// As a model of SentencePiece without begin and end that strips white space, of a blank prompt.
struct MuteTokenizer final : model::Tokenizer {
  struct Encoder final : model::TokenEncoder {
    void encode(std::string_view, std::vector<std::int32_t>&) override {}
  };
  std::string_view name() const override { return "mute"; }
  std::int32_t vocabulary() const override { return 4; }
  std::optional<std::int32_t> begin_token() const override { return std::nullopt; }
  std::optional<std::int32_t> end_token() const override { return std::nullopt; }
  std::string_view text_of(std::int32_t) const override { return {}; }
  std::unique_ptr<model::TokenEncoder> encoder(model::SpecialTokens) const override {
    return std::make_unique<Encoder>();
  }
  std::size_t cut(std::string_view) const override { return 0; }
};

TEST_CASE("a document begins with some token, whatever the tokenizer makes of its text") {
  CHECK(opening_tokens(MuteTokenizer(), " ", model::SpecialTokens::kAsText).size() == 1);
}

TEST_CASE("a model that diverged is not sampled from") {
  const ScratchFolder folder;
  Written bad = write_drawn(folder, "bad", 1);
  std::fill(bad.fast.begin(), bad.fast.end(), std::numeric_limits<float>::quiet_NaN());
  bad = write(folder, "bad", small_config(), std::move(bad));
  Status outcome = generate({.checkpoint = bad.path, .prompt = "x"}, [](std::string_view) {});
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message().find("diverged") != std::string::npos);
}

TEST_CASE("text goes on beyond the context, of which the older half is forgotten") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);  // a context of 8 bytes
  const std::string prompt = "abc";
  const GenerateOptions options{
      .checkpoint = a.path, .prompt = prompt, .tokens = 40, .sampling = {.temperature = 0}};
  const std::string text = drawn_text(options);
  REQUIRE(text.size() == prompt.size() + 40);

  auto stored = open_model(a.path);
  REQUIRE(stored.ok());
  auto runner = load_runner(stored.value(), {.device = "cpu"}, 8, {1});
  REQUIRE(runner.ok());
  std::vector<std::int32_t> seen(prompt.begin(), prompt.end());
  std::vector<float> logits(256);
  for (std::size_t at = prompt.size(); at < text.size(); ++at) {
    CAPTURE(at);
    if (seen.size() > 8) seen.erase(seen.begin(), seen.end() - 4);
    runner.value().llama.next_token_logits(runner.value().weights(), seen, logits);
    const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    CHECK(static_cast<unsigned char>(text[at]) == likeliest);
    seen.push_back(static_cast<std::int32_t>(likeliest));
  }
}

TEST_CASE("a nucleus of nothing draws what temperature zero draws") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  GenerateOptions options{.checkpoint = a.path, .prompt = "x", .tokens = 20};
  options.sampling = {.temperature = 1, .top_k = 0, .top_p = 0};
  const std::string narrow = drawn_text(options);
  options.sampling = {.temperature = 0};
  CHECK(drawn_text(options) == narrow);
}

}  // namespace
}  // namespace starling::peer

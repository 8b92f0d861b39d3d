#include "peer/commands/text_commands.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/peer/scratch_folder.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::sample_text;

TEST_CASE("the commands on texts say what they do and what to do next") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text.txt") << sample_text(30'000, 1) << "caf\xe9";
  TokenizerTrainingOptions training{.texts = {folder.path() / "text.txt"},
                                    .out = folder.path() / "small.model"};
  training.training.vocabulary = 350;
  std::ostringstream out, notes;
  Status trained = run_tokenizer_training(training, {out, notes});
  REQUIRE_MESSAGE(trained.ok(), trained.error().message());
  CHECK(notes.str().find("learning 350 tokens from 2") == 0);
  CHECK(out.str().find("--tokenizer " + training.out.string()) != std::string::npos);

  std::ostringstream said, warned;
  Status prepared = run_prepare({.texts = training.texts, .out = folder.path() / "data"},
                                training.out.string(), {said, warned});
  REQUIRE_MESSAGE(prepared.ok(), prepared.error().message());
  CHECK(said.str().find("set model.vocabulary to 350 or more (1 and 1 documents, ") !=
        std::string::npos);
  CHECK(said.str().find("little is held out: ") != std::string::npos);
  CHECK(warned.str().find("starling: 1 bytes are no UTF-8, the first in ") == 0);
}

TEST_CASE("empty files in a folder of texts stop neither command") {
  const ScratchFolder folder;
  const auto mix = folder.path() / "mix";
  std::filesystem::create_directories(mix / "below");
  std::ofstream(mix / "a.txt") << sample_text(30'000, 1);
  std::ofstream(mix / "below" / "__init__.py");
  std::ostringstream out, notes;
  Status prepared =
      run_prepare({.texts = {mix}, .out = folder.path() / "data"}, "bytes", {out, notes});
  REQUIRE_MESSAGE(prepared.ok(), prepared.error().message());
  CHECK(out.str().find("(1 and 1 documents, ") != std::string::npos);
  TokenizerTrainingOptions training{.texts = {mix}, .out = folder.path() / "small.model"};
  training.training.vocabulary = 350;
  Status trained = run_tokenizer_training(training, {out, notes});
  REQUIRE_MESSAGE(trained.ok(), trained.error().message());
}

}  // namespace starling::peer

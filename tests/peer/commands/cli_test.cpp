#include "peer/commands/cli.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

struct FullDisk : std::streambuf {
  int overflow(int) override { return traits_type::eof(); }
};

// What the command tells goes to `instead`, if that is given.
Outcome run(std::vector<std::string> arguments, std::streambuf* instead = nullptr) {
  arguments.insert(arguments.begin(), "starling");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  std::ostringstream out;
  std::ostringstream err;
  std::streambuf* const cout = std::cout.rdbuf(instead == nullptr ? out.rdbuf() : instead);
  std::streambuf* const cerr = std::cerr.rdbuf(err.rdbuf());
  const int code = run_cli(static_cast<int>(pointers.size()), pointers.data());
  std::cout.rdbuf(cout);  // clears its state
  std::cerr.rdbuf(cerr);
  return {code, out.str(), err.str()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("average writes over nothing, as where OUT was forgotten") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a.ckpt", 1);
  const Written b = write_drawn(folder, "b.ckpt", 3);
  const auto bytes_of = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = bytes_of(a.path);
  const Outcome forgotten = run({"average", a.path.string(), b.path.string()});
  CHECK(forgotten.code != 0);
  CHECK(contains(forgotten.err, a.path.string() + " exists already"));
  CHECK(bytes_of(a.path) == before);
  const std::string out = (folder.path() / "mean.ckpt").string();
  CHECK(run({"average", out, a.path.string(), b.path.string()}).code == 0);
  const Outcome one = run({"average", out + "1", a.path.string()});
  CHECK(contains(one.out, ": 1 checkpoint, "));
}

TEST_CASE("help names every command and is short") {
  const Outcome help = run({"--help"});
  CHECK(help.code == 0);
  for (const char* command :
       {"peer", "swarm", "prepare", "config", "keygen", "eval", "generate", "average",
        "consolidate", "tokenizer", "coverage", "top", "doctor", "bench", "plan"}) {
    CAPTURE(command);
    CHECK(contains(help.out, command));
    CHECK(run({command, "--help"}).code == 0);
  }
  CHECK(std::count(help.out.begin(), help.out.end(), '\n') < 32);
}

TEST_CASE("help is a command for whoever takes it for one") {
  const Outcome help = run({"help"});
  CHECK(help.code == 0);
  CHECK(help.out == run({"--help"}).out);
  const Outcome train = run({"help", "tokenizer", "train"});
  CHECK(train.code == 0);
  CHECK(contains(train.out, "--sample-bytes"));
  CHECK(train.out == run({"tokenizer", "train", "--help"}).out);
}

// The commands and options that `--help` tells, each behind its command's name.
void collect(const std::vector<std::string>& command, std::vector<std::vector<std::string>>& all) {
  std::vector<std::string> line = command;
  line.emplace_back("--help");
  std::istringstream help(run(line).out);
  bool commands = false;
  for (std::string text; std::getline(help, text);) {
    if (text == "Subcommands:") commands = true;
    std::istringstream words(text);
    std::string word;
    if (!text.starts_with("  ") || text.starts_with("   ") || !(words >> word)) continue;
    if (!commands && !word.starts_with('-')) continue;  // a positional
    std::vector<std::string> path = command;
    path.push_back(word.substr(word.find(',') + 1));  // of -h,--help the longer
    all.push_back(path);
    if (commands) collect(path, all);
  }
}

TEST_CASE("the manual page and both completions have every command and option of the help") {
  std::vector<std::vector<std::string>> all;
  collect({}, all);
  CHECK(all.size() > 60);
  const std::string manual = run({"manual"}).out;
  const std::string bash = run({"completion", "bash"}).out;
  const std::string zsh = run({"completion", "zsh"}).out;
  for (const std::vector<std::string>& path : all) {
    std::string page = "starling", place, function = "_starling";
    for (const std::string& word : path) {
      CAPTURE(word);
      if (!word.starts_with('-')) {
        page += " " + word;
        place += "/" + word;
        function += "_" + word;
        CHECK((contains(manual, page + "\\fR") || contains(manual, page + " ")));
        CHECK(contains(bash, "    '" + place + "')\n"));
        CHECK(contains(zsh, "\n" + function + "() {\n"));
        continue;
      }
      const std::string section = bash.substr(bash.find("    '" + place + "')\n"));
      CHECK(contains(section.substr(0, section.find(";;\n    '")), word));
      const std::string body = zsh.substr(zsh.find("\n" + function + "() {\n"));
      const std::string options = body.substr(0, body.find("\n}\n"));
      CHECK((contains(options, word + "[") || contains(options, word + "=[")));
      std::string escaped;
      for (const char letter : word) escaped += letter == '-' ? "\\-" : std::string(1, letter);
      CHECK(contains(manual, "\\fB" + escaped + "\\fR"));
    }
  }
  CHECK(contains(bash, "'run.name= "));
  CHECK(contains(zsh, " run.name= "));
  CHECK(run({"completion", "fish"}).code == 2);
}

TEST_CASE("what eval would not look at is refused") {
  const Outcome tokenizer = run({"eval", "x.ckpt", "--data", "d", "--tokenizer", "t"});
  CHECK(tokenizer.code == 2);
  CHECK(contains(tokenizer.err, "--tokenizer requires --choices"));
  const Outcome batches = run({"eval", "x.ckpt", "--choices", "c", "--batches", "3"});
  CHECK(batches.code == 2);
  CHECK(contains(batches.err, "--choices excludes --batches"));
}

TEST_CASE("the version is one line") {
  const Outcome version = run({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out.find("starling ") == 0);
}

TEST_CASE("a command line that makes no sense ends with 2 and says why") {
  CHECK(run({}).code == 2);
  CHECK(run({"fly"}).code == 2);
  CHECK(run({"swarm"}).code == 2);
  CHECK(run({"swarm", "x.toml", "--peers", "many"}).code == 2);
  CHECK(contains(run({}).err, "consolidate"));  // the whole help
  CHECK(contains(run({"genrate"}).err, "no command genrate; did you mean generate?"));
  const Outcome cold = run({"generate", "x", "--temperature", "-1"});
  CHECK(cold.code == 2);
  CHECK(contains(cold.err, "--temperature: -1 is not a number of 0 or more"));
  const std::vector<std::vector<std::string>> numbers = {
      {"generate", "x", "--tokens", "-5"},
      {"generate", "x", "--seed", "-1"},
      {"swarm", "x.toml", "--peers", "-1"},
      {"eval", "x", "--data", "y", "--batches", "-1"},
      {"tokenizer", "train", "x", "--out", "y", "--sample-bytes", "-1"},
      {"bench", "machine", "--seconds", "nan"}};
  for (const auto& command : numbers) {
    const Outcome outcome = run(command);
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err,
                   *(command.end() - 2) + ": " + command.back() + " is not a number of 0 or more"));
  }
  const std::vector<std::vector<std::string>> wholes = {
      {"swarm", "x.toml", "--peers", "2.5"},
      {"eval", "x", "--data", "y", "--batches", "99999999999999999999"},
      {"eval", "x", "--data", "y", "--batches", "4294967296"},
      {"generate", "x", "--tokens", "9223372036854775808"},
      {"generate", "x", "--seed", "99999999999999999999"}};
  for (const auto& command : wholes) {
    const Outcome outcome = run(command);
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, *(command.end() - 2) + ": " + command.back() +
                                    " is not a whole number of 0 to "));
  }
  // As far as the largest it is the checkpoint that is missing.
  CHECK(run({"generate", "/nowhere/x", "--seed", "18446744073709551615"}).code == 1);
  CHECK(contains(run({"foo"}).err, "no command foo\n"));
  CHECK(run({"tokenizer"}).code == 2);
  CHECK(run({"tokenizer", "train", "x", "--out", "y", "--vocabulary", "12"}).code == 2);
  const Outcome weights = run({"eval", "x", "--data", "y", "--weights", "medium"});
  CHECK(weights.code == 2);
  CHECK(contains(weights.err, "medium"));
  const Outcome device = run({"eval", "x", "--data", "y", "--device", "abacus"});
  CHECK(device.code == 2);
  CHECK(contains(device.err, "--device: abacus is none of auto, cpu, cuda"));
}

TEST_CASE("generate takes the weights that it is told to") {
  const ScratchFolder folder;
  const Written fast_only = write_drawn(folder, "a", 1);
  CHECK(run({"generate", fast_only.path.string(), "--device", "cpu"}).code == 0);
  const Outcome slow = run({"generate", fast_only.path.string(), "--weights", "slow"});
  CHECK(slow.code == 1);
  CHECK(contains(slow.err, "slow"));
}

TEST_CASE("a command that fails ends with 1 and one line that names what it was about") {
  const std::vector<std::vector<std::string>> commands = {
      {"peer", "/nowhere/x"},
      {"swarm", "/nowhere/x"},
      {"generate", "/nowhere/x"},
      {"eval", "/nowhere/x", "--data", "y"},
      {"average", "out", "/nowhere/x"},
      {"consolidate", "/nowhere/o", "/nowhere/x"},
      {"tokenizer", "train", "/nowhere/x", "--out", "/nowhere/y"},
      {"prepare", "/nowhere/x", "--out", "/nowhere/y"}};
  for (const auto& command : commands) {
    CAPTURE(command.front());
    const Outcome outcome = run(command);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("starling: ") == 0);
    CHECK(contains(outcome.err, "/nowhere/"));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_FALSE(std::filesystem::exists("/nowhere"));  // nothing is left behind
  }
}

TEST_CASE("an input that stands in the place of the output is neither lost nor to be removed") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "a.ckpt", 1);
  const std::string checkpoint = written.path.string(), name = (folder.path() / "new").string();
  std::filesystem::create_directory(folder.path() / "llama");
  const std::string llama = (folder.path() / "llama").string();
  const std::vector<std::vector<std::string>> commands = {
      {"export", name, checkpoint}, {"consolidate", checkpoint, name}, {"import", name, llama}};
  for (const auto& command : commands) {
    CAPTURE(command.front());
    const Outcome outcome = run(command);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, " exists already"));
    CHECK(contains(outcome.err, "is named"));  // which of the two comes first
    CHECK_FALSE(std::filesystem::exists(name));
  }
  CHECK(std::filesystem::exists(checkpoint));
}

TEST_CASE("a model without its tokenizer is exported, and the lack of it told") {
  const ScratchFolder folder;
  const std::string checkpoint = write_without_tokenizer(folder, "a.ckpt").path.string();
  const std::string out = (folder.path() / "out").string();
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"export", checkpoint, out + "1"}, {"consolidate", out + "2", checkpoint}}) {
    CAPTURE(command.front());
    const Outcome outcome = run(command);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.starts_with("no tokenizer was exported: " + checkpoint + ": "));
    CHECK(contains(outcome.err, "/nowhere/shards"));
  }
}

TEST_CASE("a name that is too long for the system is an error of the command") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text.txt") << std::string(5000, 'a');
  const std::string text = (folder.path() / "text.txt").string();
  const std::string name = (folder.path() / std::string(300, 'n')).string();
  const std::vector<std::vector<std::string>> commands = {
      {"export", text, name},
      {"import", folder.path().string(), name},
      {"import", name, (folder.path() / "new").string()},
      {"consolidate", name, text},
      {"consolidate", (folder.path() / "new").string(), name},
      {"tokenizer", "train", text, "--out", name},
      {"prepare", text, "--out", name}};
  for (const auto& command : commands) {
    CAPTURE(command.front());
    const Outcome outcome = run(command);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("starling: cannot ") == 0);
    CHECK(contains(outcome.err, name));
    CHECK(contains(outcome.err, "File name too long"));
  }
}

TEST_CASE("an override is one value, so that what follows it is not swallowed") {
  const Outcome outcome = run({"peer", "--set", "run.tokens=5", "/nowhere/x"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "/nowhere/x"));
}

TEST_CASE("a slow peer is given as index and factor") {
  for (const char* text : {"1", "=2", "1=", "a=2", "1=b", "1=2x", "-1=2"}) {
    CAPTURE(text);
    const Outcome outcome = run({"swarm", "/nowhere/x", std::string("--slow=") + text});
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "INDEX=FACTOR"));
  }
}

TEST_CASE("a text becomes shards") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text.txt") << std::string(5000, 'a');
  const Outcome outcome = run({"prepare", (folder.path() / "text.txt").string(), "--out",
                               (folder.path() / "data").string(), "--validation-fraction", "0.1"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("5000 bytes of text: 4500 tokens to train on, 500 held out") == 0);
  CHECK(contains(outcome.out, "train = [\"" + (folder.path() / "data/train").string() + "\"]\n"));
  CHECK(std::filesystem::exists(folder.path() / "data" / "train" / "00000.tok"));
}

TEST_CASE("a field that is named is asked of every text, and JSON lines have it by name") {
  const ScratchFolder folder;
  const std::string line = "{\"body\": \"" + std::string(5000, 'a') + "\"}\n";
  for (const char* name : {"n.json", "n.ndjson"}) {
    std::ofstream(folder.path() / name) << line << line;
  }
  const std::string out = (folder.path() / "data").string();
  const auto prepared = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> command = {"prepare", (folder.path() / name).string(), "--out",
                                        out,       "--validation-fraction",         "0.5"};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const Outcome named = prepared("n.json", {"--text-field", "body"});
  CHECK(named.code == 1);
  CHECK(contains(named.err, "n.json is not read as JSON lines"));
  const Outcome plain = prepared("n.json", {});
  CHECK(plain.code == 1);
  CHECK(contains(plain.err, "n.json has lines of JSON: name it *.jsonl"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(contains(run({"manual"}).out, "the field with the text. Default: text.\n"));
  CHECK(prepared("n.ndjson", {"--text-field", "body"}).code == 0);
}

TEST_CASE("keygen makes a key once and tells it again, and a secret only once") {
  const ScratchFolder folder;
  const std::string key = (folder.path() / "key").string();
  const Outcome first = run({"keygen", key});
  CHECK(first.code == 0);
  CHECK(first.out.find('\n') == 64);
  CHECK(contains(first.out, "gossip.seeds = [\"" + first.out.substr(0, 64) + "@HOST:PORT\"]"));
  CHECK(run({"keygen", key}).out == first.out);
  const std::string secret = (folder.path() / "secret").string();
  CHECK(run({"keygen", "--secret", secret}).code == 0);
  CHECK(run({"keygen", "--secret", secret}).code == 1);
  CHECK(run({"keygen"}).code == 2);
  CHECK(run({"keygen", "--secret", (folder.path() / "new" / "secret").string()}).code == 0);
}

TEST_CASE("a folder is no key, and is told to be none") {
  const ScratchFolder folder;
  const Outcome outcome = run({"keygen", folder.path().string()});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "is a folder; name a file in it"));
}

TEST_CASE("a command whose output cannot be written fails and says so") {
  FullDisk full;
  const Outcome outcome = run({"config"}, &full);
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "not all of the output could be written"));
}

TEST_CASE("the description of the configuration names its keys") {
  const Outcome outcome = run({"config"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "steps_per_round"));
}

}  // namespace
}  // namespace starling::peer

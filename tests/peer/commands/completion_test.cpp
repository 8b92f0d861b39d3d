#include "peer/commands/completion.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace starling::peer {
namespace {

const CommandText kProgram{
    .name = "tool",
    .options = {{.names = {"--version"}, .purpose = "Tell it's 1"}},
    .commands = {
        {.name = "make",
         .purpose = "Makes: a thing",
         .options = {{.names = {"out"}, .value = "DIR", .positional = true},
                     {.names = {"in"}, .value = "IN", .positional = true, .repeated = true},
                     {.names = {"-k", "--kind"},
                      .value = "KIND",
                      .choices = {"old", "new"},
                      .purpose = "Of [it]"},
                     {.names = {"--set"}, .value = "SECTION.KEY=VALUE", .repeated = true},
                     {.names = {"--count"}, .value = "UINT"}}},
        {.name = "group", .commands = {{.name = "sub"}}}}};
const std::vector<std::string> kKeys = {"a.b", "a.c"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("bash completes commands, options, their words, files and keys") {
  const std::string script = bash_completion(kProgram, kKeys);
  CHECK(contains(script, "      /make | /group | /group/sub) command+="));
  CHECK(contains(script, "    '')\n      want=words words='make group'\n"));
  CHECK(contains(script, "    '/make')\n      want=files\n"));  // a DIR first, but also files
  CHECK(contains(script, "words='-k --kind --set --count'\n"));
  CHECK(contains(script, "        -k | --kind) want=words words='old new' ;;\n"));
  CHECK(contains(script, "        --set) want=keys ;;\n"));
  CHECK(contains(script, "        --count) want=nothing ;;\n"));
  CHECK(contains(script, "words='a.b= a.c='"));
  CHECK(script.ends_with("complete -F _tool tool\n"));
}

TEST_CASE("zsh has a function for each command, with what its marks mean escaped") {
  const std::string script = zsh_completion(kProgram, kKeys);
  CHECK(script.starts_with("#compdef tool\n"));
  CHECK(contains(script, "'--version[Tell it'\\''s 1]'"));
  CHECK(contains(script, "'make:Makes\\: a thing'"));
  CHECK(contains(script, "'1:DIR:_files -/'"));
  CHECK(contains(script, "'*:IN:_files'"));
  CHECK(contains(script, "'--kind=[Of \\[it\\]]:KIND:(old new)'"));
  CHECK(contains(script, "'*--set=[]:SECTION.KEY=VALUE:_tool_keys'"));
  CHECK(contains(script, "sub) _tool_group_sub ;;"));
  CHECK(contains(script, "compadd -S '' -- a.b= a.c=\n"));
}

}  // namespace
}  // namespace starling::peer

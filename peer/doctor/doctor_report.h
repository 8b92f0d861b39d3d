// What `starling doctor` has found out, and how it is shown: as lines for people or as JSON for
// scripts. A finding that failed, or may do so, names the setting or the command that mends it.
// Texts may come from strangers: they are made printable here. Pure values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling::peer {

enum class Verdict : std::uint8_t { kOk, kWarning, kFailed };
std::string_view to_string(Verdict verdict);  // "ok", "warning", "failed"

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string check;     // a word or two: what was looked at
  std::string text;      // what was measured, or is wrong
  std::string remedy{};  // empty exactly where all is well
  // What was measured, as a number with its unit, for programs (`starling plan` reads some).
  std::map<std::string, double> figures{};
};
// The same with one more figure.
Finding with_figure(Finding finding, std::string name, double value);
Finding good(std::string check, std::string text);
Finding doubtful(std::string check, std::string text, std::string remedy);
Finding failed(std::string check, std::string text, std::string remedy);

struct FindingGroup {
  std::string name;
  std::vector<Finding> findings{};
};

std::size_t count(std::span<const FindingGroup> groups, Verdict verdict);

// A heading and a line for each finding, with the remedy below it; every line ends with a line
// feed.
std::string group_text(const FindingGroup& group);
// One line: how many checks failed, and how many warnings there are.
std::string summary_text(std::span<const FindingGroup> groups);
nlohmann::json report_json(std::span<const FindingGroup> groups);

}  // namespace starling::peer

#include "peer/doctor/doctor_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/assert.h"
#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

constexpr std::size_t kTextColumn = 11;

// Aloud, so that it is found among many lines.
std::string_view shown(Verdict verdict) {
  return verdict == Verdict::kFailed ? "FAILED" : to_string(verdict);
}

// Lines after the first stand below its text.
std::string indented(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    result += c;
    if (c == '\n') result.append(kTextColumn, ' ');
  }
  return result;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kFailed: return "failed";
  }
  return "unknown";
}

Finding good(std::string check, std::string text) {
  return {Verdict::kOk, std::move(check), std::move(text)};
}

Finding doubtful(std::string check, std::string text, std::string remedy) {
  STARLING_ASSERT(!remedy.empty());
  return {Verdict::kWarning, std::move(check), std::move(text), std::move(remedy)};
}

Finding failed(std::string check, std::string text, std::string remedy) {
  STARLING_ASSERT(!remedy.empty());
  return {Verdict::kFailed, std::move(check), std::move(text), std::move(remedy)};
}

Finding with_figure(Finding finding, std::string name, double value) {
  finding.figures.emplace(std::move(name), value);
  return finding;
}

std::size_t count(std::span<const FindingGroup> groups, Verdict verdict) {
  std::size_t found = 0;
  for (const FindingGroup& group : groups) {
    for (const Finding& finding : group.findings) found += finding.verdict == verdict ? 1 : 0;
  }
  return found;
}

std::string group_text(const FindingGroup& group) {
  std::string text = printable(group.name) + "\n";
  for (const Finding& finding : group.findings) {
    text += fmt::format("  {:<9}{}: {}\n", shown(finding.verdict), finding.check,
                        indented(finding.text));
    if (finding.remedy.empty()) continue;
    text += fmt::format("{:{}}-> {}\n", "", kTextColumn, indented(finding.remedy));
  }
  return text;
}

std::string summary_text(std::span<const FindingGroup> groups) {
  const std::size_t broken = count(groups, Verdict::kFailed);
  const std::size_t warnings = count(groups, Verdict::kWarning);
  return fmt::format("{} check{} failed, {} warning{}\n", broken, broken == 1 ? "" : "s", warnings,
                     warnings == 1 ? "" : "s");
}

nlohmann::json report_json(std::span<const FindingGroup> groups) {
  nlohmann::json shown_groups = nlohmann::json::array();
  for (const FindingGroup& group : groups) {
    nlohmann::json findings = nlohmann::json::array();
    for (const Finding& finding : group.findings) {
      findings.push_back({{"verdict", to_string(finding.verdict)},
                          {"check", finding.check},
                          {"text", printable(finding.text)},
                          {"remedy", printable(finding.remedy)}});
      if (!finding.figures.empty()) findings.back()["figures"] = finding.figures;
    }
    shown_groups.push_back({{"name", printable(group.name)}, {"findings", std::move(findings)}});
  }
  return {{"failed", count(groups, Verdict::kFailed)},
          {"warnings", count(groups, Verdict::kWarning)},
          {"groups", std::move(shown_groups)}};
}

}  // namespace starling::peer

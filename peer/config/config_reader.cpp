// load_config and parse_config: TOML -> PeerConfig, by the descriptions of config_describe.h.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <type_traits>

#include "peer/config/config.h"
#include "peer/config/config_describe.h"
#include "peer/config/config_keys.h"
#include "peer/config/config_text.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

// What somebody may have meant by a key that there is not.
std::string instead_of(const std::string& key) {
  constexpr std::size_t kFew = 12;
  if (const auto near = nearest_key(key); !near.empty()) {
    return fmt::format("; did you mean '{}'?", near);
  }
  const auto beside = keys_beside(key);
  if (beside.empty()) return "";
  if (beside.size() > kFew) return "; 'starling config' describes those of its section";
  return fmt::format("; its section has {}", fmt::join(beside, ", "));
}

constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20;

// One layer of configuration: the file, or one override.
struct Layer {
  std::string name;  // as errors show it
  toml::table table;
  bool lines_matter = true;  // an override has no lines
  std::string written{};     // of an override: what stands behind the '='
};

std::string_view kind_of(const toml::node& node) {
  if (node.is_string()) return "a string";
  if (node.is_integer()) return "an integer";
  if (node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "a boolean";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// A visitor that sets the fields a layer has, and notes all that is wrong.
class Reader {
 public:
  Reader(const Layer& layer, std::vector<std::string>& problems)
      : layer_(layer), problems_(problems) {}

  void begin_section(std::string_view name, std::string_view) {
    section_name_ = name;
    section_ = nullptr;
    known_.clear();
    const toml::node* node = layer_.table.get(name);
    if (node == nullptr) return;
    section_ = node->as_table();
    if (section_ == nullptr) complain(*node, fmt::format("'{}' must be a section", name));
  }

  void end_section() {
    if (section_ == nullptr) return;
    for (const auto& [key, node] : *section_) {
      if (known_.count(key.str()) == 0) unknown(node, section_name_ + "." + std::string(key.str()));
    }
  }

  void unknown(const toml::node& node, const std::string& key) {
    complain(node, fmt::format("unknown key '{}'{}", key, instead_of(key)));
  }

  void operator()(std::string_view key, bool& field, std::string_view) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_boolean()) return wrong_type(*node, key, "true or false");
    field = node->as_boolean()->get();
  }

  template <class Integer>
  void operator()(std::string_view key, Integer& field, IntegerRange range, std::string_view) {
    static_assert(std::is_integral_v<Integer>);
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const std::optional<std::int64_t> whole = as_integer(*node);
    if (!whole.has_value()) return wrong_type(*node, key, "an integer");
    const std::int64_t value = *whole;
    if (value < range.first || value > range.last) {
      return out_of_range(*node, key, value, range.first, range.last);
    }
    field = static_cast<Integer>(value);
  }

  void operator()(std::string_view key, std::optional<std::int64_t>& field, AutoRange range,
                  std::string_view why) {
    const toml::node* node = section_ == nullptr ? nullptr : section_->get(key);
    if (node != nullptr && node->is_string()) {
      known_.insert(std::string(key));
      if (node->as_string()->get() != "auto")
        return wrong_type(*node, key, "\"auto\" or an integer");
      field.reset();
      return;
    }
    std::int64_t value = field.value_or(0);
    (*this)(key, value, IntegerRange{range.first, range.last}, why);
    if (value != 0) field = value;
  }

  template <class Real>
  void operator()(std::string_view key, Real& field, RealRange range, std::string_view) {
    static_assert(std::is_floating_point_v<Real>);
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_number()) return wrong_type(*node, key, "a number");
    const double value = *node->value<double>();
    // Written so that a NaN is out of range.
    if (!(value >= range.first && value <= range.last)) {
      return out_of_range(*node, key, value, range.first, range.last);
    }
    field = static_cast<Real>(value);
  }

  void operator()(std::string_view key, std::string& field, TextRange range, std::string_view) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const std::string* text = text_of(*node);
    if (text == nullptr) return wrong_type(*node, key, "a string");
    if (check_text(*node, *text, key, range)) field = *text;
  }

  void operator()(std::string_view key, std::vector<std::string>& field, TextRange range,
                  std::string_view) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    std::vector<std::string> texts;
    // A list of one, to spare people the brackets in --set.
    if (const std::string* one = text_of(*node)) {
      if (!check_text(*node, *one, key, range)) return;
      texts.push_back(*one);
    } else if (const toml::array* array = node->as_array()) {
      for (const toml::node& element : *array) {
        if (!element.is_string()) return wrong_type(element, key, "an array of strings");
        if (!check_text(element, element.as_string()->get(), key, range)) return;
        texts.push_back(element.as_string()->get());
      }
    } else {
      return wrong_type(*node, key, "an array of strings");
    }
    field = std::move(texts);
  }

  template <class Enum, std::size_t kCount>
  void operator()(std::string_view key, Enum& field,
                  const std::array<Choice<Enum>, kCount>& choices, std::string_view) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const std::string names = names_of(choices);
    if (!node->is_string()) return wrong_type(*node, key, "one of " + names);
    const std::string& text = node->as_string()->get();
    for (const Choice<Enum>& choice : choices) {
      if (choice.name != text) continue;
      field = choice.value;
      return;
    }
    complain(*node, fmt::format("'{}.{}' is \"{}\", which is none of {}", section_name_, key, text,
                                names));
  }

 private:
  const toml::node* take(std::string_view key) {  // null: not in this layer
    known_.insert(std::string(key));
    return section_ == nullptr ? nullptr : section_->get(key);
  }

  // 1e6 is a number to TOML, but it is what people write for a million.
  static std::optional<std::int64_t> as_integer(const toml::node& node) {
    constexpr double kExactMax = 9007199254740992.0;  // 2^53
    if (node.is_integer()) return node.as_integer()->get();
    if (!node.is_floating_point()) return std::nullopt;
    const double value = node.as_floating_point()->get();
    if (!(std::abs(value) <= kExactMax) || value != std::floor(value)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }

  // Null: it is none. A name may look like a number or a date; behind --set it needs no quotes.
  const std::string* text_of(const toml::node& node) const {
    if (node.is_string()) return &node.as_string()->get();
    return layer_.written.empty() || !node.is_value() ? nullptr : &layer_.written;
  }

  bool check_text(const toml::node& node, const std::string& text, std::string_view key,
                  TextRange range) {
    const std::size_t bytes = text.size();
    if (bytes >= range.bytes_min && bytes <= range.bytes_max) return true;
    complain(node, fmt::format("'{}.{}' has {} bytes; allowed are {} to {}", section_name_, key,
                               bytes, range.bytes_min, range.bytes_max));
    return false;
  }

  void wrong_type(const toml::node& node, std::string_view key, std::string_view wanted) {
    complain(node, fmt::format("'{}.{}' is {}, but must be {}", section_name_, key, kind_of(node),
                               wanted));
  }

  template <class Number>
  void out_of_range(const toml::node& node, std::string_view key, Number value, Number first,
                    Number last) {
    complain(node, fmt::format("'{}.{}' is {}; allowed are {} to {}", section_name_, key, value,
                               first, last));
  }

  void complain(const toml::node& node, const std::string& what) {
    if (!layer_.lines_matter) return problems_.push_back(fmt::format("{}: {}", layer_.name, what));
    problems_.push_back(fmt::format("{}:{}: {}", layer_.name, node.source().begin.line, what));
  }

  const Layer& layer_;
  std::vector<std::string>& problems_;
  std::string section_name_;
  const toml::table* section_ = nullptr;  // null: this layer does not have it
  std::set<std::string, std::less<>> known_;
};

void read_layer(const Layer& layer, PeerConfig& config, std::vector<std::string>& problems) {
  Reader reader(layer, problems);
  describe(reader, config);
  const std::vector<std::string> sections = section_names();
  for (const auto& [key, node] : layer.table) {
    const std::string name(key.str());
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      reader.unknown(node, name);
    }
  }
}

Error invalid(std::string message) { return Error(ErrorCode::kInvalidConfig, std::move(message)); }

Result<Layer> parse_layer(std::string_view text, std::string_view name) {
  try {
    return Layer{std::string(name), toml::parse(text, name), true};
  } catch (const toml::parse_error& error) {
    return invalid(fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
  }
}

bool is_whole_number(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return !text.empty() && text.front() != '0' &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<Layer> parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = "--set " + text;
  if (equals == std::string::npos || text.find('.') > equals) {
    return invalid(fmt::format("{}: must have the form section.key=value", name));
  }
  auto layer = parse_layer(text, name);
  if (!layer.ok() && is_whole_number(std::string_view(text).substr(equals + 1))) {
    return invalid(fmt::format("{}: no number has so many digits; integers end at {}", name,
                               std::numeric_limits<std::int64_t>::max()));
  }
  if (!layer.ok()) {
    // Not TOML: taken as a string.
    layer = parse_layer(text.substr(0, equals + 1) + in_quotes(text.substr(equals + 1)), name);
  }
  if (!layer.ok()) return invalid(fmt::format("{}: is not section.key=value", name));
  layer.value().lines_matter = false;
  layer.value().written = text.substr(equals + 1);
  return layer;
}

void fill_in_derived(PeerConfig& config) {
  if (config.run.total_tokens == 0) config.run.total_tokens = config.run.tokens;
  optim::LrConfig& schedule = config.schedule;
  if (schedule.total_tokens == 0) {
    schedule.total_tokens = static_cast<double>(config.run.total_tokens);
  }
  if (schedule.decay_start_tokens == 0) {
    schedule.decay_start_tokens = derived_decay_start(schedule);
  }
}

// What no layer sets has a default that depends on the outer method and the model, so these are
// read first.
PeerConfig read_layers(const std::vector<Layer>& layers, std::vector<std::string>& problems) {
  PeerConfig first;
  std::vector<std::string> told_below;
  for (const Layer& layer : layers) read_layer(layer, first, told_below);
  const auto defaults = outer_defaults(first.outer.rule.method, first.model.layers);
  PeerConfig config;
  config.outer.rule = defaults.rule;
  config.outer.rounds = defaults.rounds;
  for (const Layer& layer : layers) read_layer(layer, config, problems);
  return config;
}

}  // namespace

Result<PeerConfig> parse_config(std::string_view text, std::string_view name,
                                std::span<const std::string> overrides, ConfigUse use) {
  std::vector<std::string> problems;
  std::vector<Layer> layers;
  auto file = parse_layer(text, name);
  if (!file.ok()) return std::move(file).error();
  if (file.value().table.contains("machine")) {
    return invalid(
        fmt::format("{0} describes machines, for 'starling plan {0}'; a peer needs a "
                    "configuration, and 'starling plan {0} --write DIR' writes one for "
                    "each of them",
                    name));
  }
  layers.push_back(std::move(file).value());
  for (const std::string& override_text : overrides) {
    auto layer = parse_override(override_text);
    if (layer.ok()) {
      layers.push_back(std::move(layer).value());
    } else {
      problems.push_back(layer.error().message());
    }
  }
  PeerConfig config = read_layers(layers, problems);
  if (!problems.empty()) {
    return invalid(std::accumulate(
        std::next(problems.begin()), problems.end(), problems.front(),
        [](std::string all, const std::string& one) { return std::move(all) + "\n" + one; }));
  }
  fill_in_derived(config);
  auto valid = validate(config, use);
  if (!valid.ok()) {  // of fields together: any layer may have set them
    return std::move(valid).error().with_context(std::string(name) +
                                                 (overrides.empty() ? "" : " with --set"));
  }
  return config;
}

double derived_decay_start(const optim::LrConfig& schedule) {
  const double start = std::min(std::round(0.8 * schedule.total_tokens), schedule.total_tokens);
  // A long warm-up moves it; only one that was set can clash with it.
  return std::max(start, schedule.warmup_tokens);
}

Result<PeerConfig> load_config(const std::filesystem::path& file,
                               std::span<const std::string> overrides, ConfigUse use) {
  auto text = read_text(file, kConfigBytesMax);
  if (!text.ok()) return std::move(text).error().with_context("configuration");
  return parse_config(text.value(), file.string(), overrides, use);
}

}  // namespace starling::peer

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "common/config_parse.hpp"
#include "common/error.hpp"

namespace holdfast {
namespace detail {
namespace {

constexpr std::size_t kFileLimit = 64 * 1024;
constexpr std::size_t kSourceLimit = 200;  // of its name in errors

// Each dot in a key nests one table deeper, and toml++ destroys tables recursively: thousands would end the stack.
constexpr std::ptrdiff_t kDotLimit = 2000;

std::string at_line(std::string_view source, std::size_t line) {
  return std::string(shorten(source, kSourceLimit)) + (line == 0 ? "" : ":" + std::to_string(line)) + ": ";
}

/// The known key that a line of the text begins with; nullptr if there is none.
Key const* key_of_line(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return find_key(text.substr(0, text.find_first_of(" \t=\r\n")));
}

/// toml++ says what is wrong by quoting it, and that may be a password: only the place and a known key are told.
Problem syntax_problem(toml::parse_error const& error, std::string_view text, std::string_view source) {
  std::size_t const line = error.source().begin.line;
  bool const twice = error.description().find("cannot redefine existing") != std::string_view::npos;
  Key const* const key = key_of_line(text, line);
  std::string const what = key == nullptr ? "" : std::string(key->name) + ": ";
  return Problem{at_line(source, line) + what + (twice ? "given twice" : "not valid TOML (are the quotes missing?)")};
}

Outcome<toml::table> parse_table(std::string_view text, std::string_view source) {
  if (text.size() > kFileLimit) {
    return Problem{at_line(source, 0) + "longer than " + std::to_string(kFileLimit) + " bytes"};
  }
  if (std::count(text.begin(), text.end(), '.') > kDotLimit) {
    return Problem{at_line(source, 0) + "more than " + std::to_string(kDotLimit) + " dots"};
  }
  try {
    return toml::parse(text, source);
  } catch (toml::parse_error const& error) {
    return syntax_problem(error, text, source);
  }
}

/// The value as it would stand in a URL; nothing if it is of the wrong type.
std::optional<std::string> value_text(toml::node const& node, Native native) {
  if (auto const* const text = node.as_string()) return text->get();
  if (auto const* const number = node.as_integer(); number != nullptr && native == Native::integer) {
    return std::to_string(number->get());
  }
  if (auto const* const flag = node.as_boolean(); flag != nullptr && native == Native::boolean) {
    return flag->get() ? "true" : "false";
  }
  return std::nullopt;
}

std::string_view expected(Native native) {
  switch (native) {
    case Native::text: return "a string";
    case Native::integer: return "a number or a string";
    case Native::boolean: return "true or false";
  }
  return "";
}

Outcome<void> apply_node(Draft& draft, std::string_view name, toml::node const& node) {
  Key const* const key = find_key(name);
  if (key == nullptr) return Problem{"unknown key " + in_quotes(name) + "; known are url, " + key_names()};
  auto const value = value_text(node, key->native);
  if (!value) return Problem{std::string(name) + ": the value must be " + std::string(expected(key->native))};
  return set_key(draft, *key, *value);
}

Outcome<void> apply_url_node(Draft& draft, toml::node const& node) {
  auto const* const url = node.as_string();
  if (url == nullptr) return Problem{"url: the value must be a string"};
  auto const ok = apply_url(draft, url->get());
  if (!ok) return Problem{"url: " + ok.error().text, ok.error().condition};
  return {};
}

Outcome<Config> apply_table(toml::table const& table, std::string_view source) {
  auto const placed = [&](Problem const& problem, std::size_t line) {
    return Problem{at_line(source, line) + problem.text, problem.condition};
  };
  Draft draft;
  toml::node const* const url = table.get("url");
  if (url == nullptr) return placed(Problem{"the key url is missing"}, 0);
  // First the URL, so that a key given in both is reported with its own line.
  if (auto const ok = apply_url_node(draft, *url); !ok) return placed(ok.error(), url->source().begin.line);
  for (auto const& [name, node] : table) {
    if (name.str() == "url") continue;
    if (auto const ok = apply_node(draft, name.str(), node); !ok) return placed(ok.error(), name.source().begin.line);
  }
  if (auto const ok = check_config(draft.config); !ok) return placed(ok.error(), 0);
  return std::move(draft.config);
}

}  // namespace

Result<Config> parse_toml(std::string_view text, std::string_view source) {
  auto const table = parse_table(text, source);
  if (!table) return fail(table.error().condition, table.error().text);
  auto config = apply_table(*table, source);
  if (!config) return fail(config.error().condition, config.error().text);
  return std::move(*config);
}

}  // namespace detail

Result<Config> Config::from_file(std::filesystem::path const& file) {
  std::string text;
  if (int const error = detail::read_some(file.c_str(), detail::kFileLimit + 1, text); error != 0) {
    return detail::fail_errno(error, "cannot read " + detail::in_quotes(file.native()));
  }
  return detail::parse_toml(text, file.native());
}

}  // namespace holdfast

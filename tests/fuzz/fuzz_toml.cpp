#include <cstddef>
#include <cstdint>

#include "common/config_parse.hpp"
#include "tests/fuzz/check.hpp"

// Any text as a TOML file: it is refused, or it makes a valid Config which, written as TOML again, makes the same
// Config. And whatever follows a password, no error repeats it.

namespace holdfast::fuzz {
namespace {

constexpr std::string_view kSecret = "S3cr3tV4lu3";

/// A TOML string in which every byte but the plainest is an escape. Only for UTF-8, which is all that TOML can hold.
std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      out += c;
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    }
  }
  return out + "\"";
}

std::string toml_of(Config const& config) {
  std::string out = "url = " + toml_string(place_of(config)) + "\n";
  for_each_key(config, [&](std::string const& key, std::string const& value) {
    out += key + " = " + toml_string(value) + "\n";
  });
  return out;
}

bool all_utf8(Config const& config) {
  bool all = true;
  for_each_key(config, [&](char const*, std::string const& value) { all = all && detail::valid_utf8(value); });
  return all;
}

void check_round_trip(std::string_view text) {
  auto const config = detail::parse_toml(text, "fuzz.toml");
  if (!config) {
    require(config.error().failed(), "an error is a failure");
    return;
  }
  require(config->validate().has_value(), "what parse_toml accepts is valid");
  if (!all_utf8(*config)) return;
  auto const again = detail::parse_toml(toml_of(*config), "again.toml");
  require(again.has_value() && same(*again, *config), "a Config written as TOML makes the same Config");
}

void check_secret(std::string_view text) {
  std::string whole = "url = 'etcd://h?user=u'\npassword = '" + std::string(kSecret) + "'";
  whole += text;
  auto const config = detail::parse_toml(whole, "fuzz.toml");
  if (config) return;
  require(config.error().message().find(kSecret) == std::string::npos, "no error repeats a password");
}

}  // namespace
}  // namespace holdfast::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  holdfast::fuzz::check_round_trip(text);
  holdfast::fuzz::check_secret(text);
  return 0;
}

#include <cstddef>
#include <cstdint>
#include <holdfast/config.hpp>

#include "tests/fuzz/check.hpp"

// Any text as a URL: it is refused, or it makes a valid Config which, written as a URL again, makes the same Config.
// And whatever follows a password, no error repeats it.

namespace holdfast::fuzz {
namespace {

constexpr std::string_view kSecret = "S3cr3tV4lu3";

std::string url_of(Config const& config) {
  std::string out = place_of(config);
  char separator = '?';
  for_each_key(config, [&](std::string const& key, std::string const& value) {
    out += separator + key + "=" + detail::percent_encode(value);
    separator = '&';
  });
  return out;
}

void check_round_trip(std::string_view text) {
  auto const config = Config::from_url(text);
  if (!config) {
    require(config.error().failed(), "an error is a failure");
    return;
  }
  require(config->validate().has_value(), "what from_url accepts is valid");
  require(config->drift >= 0 && config->drift <= 0.5, "drift is in range");
  auto const again = Config::from_url(url_of(*config));
  require(again.has_value() && same(*again, *config), "a Config written as a URL makes the same Config");
}

void check_secret(std::string_view text) {
  std::string const before = "etcd://h?user=u&password=" + std::string(kSecret);
  auto const config = Config::from_url(before + std::string(text));
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

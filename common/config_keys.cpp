#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "common/config_parse.hpp"
#include "common/duration.hpp"

namespace holdfast::detail {
namespace {

/// The message of an error without the words of its condition, to be told in a larger context.
std::string reason(error_code const& code) {
  std::string const whole = code.message();
  std::string const words = make_error_code(errc::invalid_argument).message() + ": ";
  return whole.starts_with(words) ? whole.substr(words.size()) : whole;
}

template <auto Member>
Outcome<void> set_text(Config& config, std::string_view value) {
  config.*Member = value;
  return {};
}

template <auto Member>
Outcome<void> set_duration(Config& config, std::string_view value) {
  auto const duration = parse_duration(value);
  if (!duration) return Problem{reason(duration.error())};
  config.*Member = *duration;
  return {};
}

Outcome<void> set_drift(Config& config, std::string_view value) {
  Problem const wrong{in_quotes(value) + " is not a percentage from 0% to 50%, as in 1% or 0.5%"};
  if (!value.ends_with('%')) return wrong;
  std::string_view const number = value.substr(0, value.size() - 1);
  // from_chars would also take "-1", "inf" and ".5".
  if (number.find_first_not_of("0123456789.") != std::string_view::npos || number.starts_with('.')) return wrong;
  double percent = 0;
  auto const [stop, error] =
      std::from_chars(number.data(), number.data() + number.size(), percent, std::chars_format::fixed);
  if (error != std::errc() || stop != number.data() + number.size() || number.ends_with('.')) return wrong;
  if (percent > 50) return wrong;
  config.drift = percent / 100;
  return {};
}

Outcome<void> set_fence_epoch(Config& config, std::string_view value) {
  auto const epoch = parse_decimal(value);
  if (!epoch) return Problem{in_quotes(value) + " is not a decimal number from 0 to 18446744073709551615"};
  config.fence_epoch = *epoch;
  return {};
}

Outcome<void> set_tls(Config& config, std::string_view value) {
  if (value != "true" && value != "false") return Problem{in_quotes(value) + " is neither true nor false"};
  config.tls = value == "true";
  return {};
}

Outcome<void> set_password_from_file(Config& config, std::string_view value) {
  std::string content;
  if (int const error = read_some(std::string(value).c_str(), kSecretLimit + 3, content); error != 0) {
    return Problem{"cannot read " + in_quotes(value) + ": " + std::generic_category().message(error)};
  }
  if (content.ends_with('\n')) content.pop_back();
  if (content.ends_with('\r')) content.pop_back();
  if (content.empty()) return Problem{"the file " + in_quotes(value) + " is empty"};
  config.password = std::move(content);
  return {};
}

Outcome<void> set_password_from_env(Config& config, std::string_view value) {
  char const* const found = std::getenv(std::string(value).c_str());
  if (found == nullptr) return Problem{"the environment has no variable " + in_quotes(value)};
  if (*found == '\0') return Problem{"the variable " + in_quotes(value) + " is empty"};
  config.password = found;
  return {};
}

constexpr std::array kKeys = {
    Key{"ttl", Native::text, set_duration<&Config::ttl>},
    Key{"connect_timeout", Native::text, set_duration<&Config::connect_timeout>},
    Key{"request_timeout", Native::text, set_duration<&Config::request_timeout>},
    Key{"close_timeout", Native::text, set_duration<&Config::close_timeout>},
    Key{"ping_lag", Native::text, set_duration<&Config::ping_lag>},
    Key{"drift", Native::text, set_drift},
    Key{"label", Native::text, set_text<&Config::label>},
    Key{"fence_epoch", Native::integer, set_fence_epoch},
    Key{"tls", Native::boolean, set_tls},
    Key{"ca", Native::text, set_text<&Config::ca>},
    Key{"cert", Native::text, set_text<&Config::cert>},
    Key{"key", Native::text, set_text<&Config::key>},
    Key{"user", Native::text, set_text<&Config::user>},
    Key{"password", Native::text, set_text<&Config::password>},
    Key{"password_file", Native::text, set_password_from_file},
    Key{"password_env", Native::text, set_password_from_env},
};

bool is_secret(std::string_view name) { return name.starts_with("password"); }

}  // namespace

Key const* find_key(std::string_view name) noexcept {
  auto const* const found = std::find_if(kKeys.begin(), kKeys.end(), [&](Key const& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : found;
}

std::string key_names() {
  std::string out;
  for (Key const& key : kKeys) {
    if (!out.empty()) out += ", ";
    out += key.name;
  }
  return out;
}

Outcome<void> set_key(Draft& draft, Key const& key, std::string_view value) {
  std::string const name(key.name);
  for (std::string_view const earlier : draft.given) {
    if (earlier == key.name) return Problem{name + " is given twice"};
    if (is_secret(earlier) && is_secret(key.name)) {
      return Problem{name + " is given beside " + std::string(earlier) + "; at most one of them may be"};
    }
  }
  draft.given.push_back(key.name);
  if (value.empty()) return Problem{name + ": the value is empty"};
  if (value.find('\0') != std::string_view::npos) return Problem{name + ": the value has a NUL byte"};
  auto const done = key.set(draft.config, value);
  if (!done) return Problem{name + ": " + done.error().text, done.error().condition};
  return {};
}

int read_some(char const* file, std::size_t most, std::string& content) {
  int const fd = ::open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  content.resize(most);
  std::size_t size = 0;
  int error = 0;
  while (size < most) {
    ssize_t const got = ::read(fd, content.data() + size, most - size);
    if (got == 0) break;
    if (got > 0) {
      size += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      error = errno;
      break;
    }
  }
  ::close(fd);
  content.resize(size);
  return error;
}

}  // namespace holdfast::detail

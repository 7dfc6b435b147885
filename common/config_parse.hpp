#pragma once

#include <cstddef>
#include <holdfast/config.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.hpp"

// How a Config comes about: URL and TOML are two notations of the same keys, which are listed once (config_keys.cpp).

namespace holdfast::detail {

inline constexpr std::size_t kSecretLimit = 4096;  ///< bytes of a password, a user or a file's name

/// How a key may be written in TOML, beside a string.
enum class Native { text, integer, boolean };

struct Key {
  std::string_view name;
  Native native;
  Outcome<void> (*set)(Config& config, std::string_view value);
};

/// A Config in the making, and the keys that were given so far.
struct Draft {
  Config config;
  std::vector<std::string_view> given;
};

/// nullptr if there is no such key.
Key const* find_key(std::string_view name) noexcept;

/// All keys, for error messages: "ttl, connect_timeout, ...".
std::string key_names();

/// Sets one key. Problems name the key, and the value unless it is a secret.
Outcome<void> set_key(Draft& draft, Key const& key, std::string_view value);

/// Sets scheme, place and keys from a URL.
Outcome<void> apply_url(Draft& draft, std::string_view url);

/// What Config::validate() does.
Outcome<void> check_config(Config const& config);

/// A whole TOML text; `source` names it in errors.
Result<Config> parse_toml(std::string_view text, std::string_view source);

/// Up to `most` bytes of a file. Returns 0 or an errno.
int read_some(char const* file, std::size_t most, std::string& content);

}  // namespace holdfast::detail

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::tool {

/// "250ms", "10s", "5m", "1h", as in the URL: a whole number and a unit.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

/// The reverse, for people: the largest unit that is not zero, as in "3s" or "2m".
[[nodiscard]] std::string brief(std::chrono::milliseconds duration);

/// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD: JSON has no place for them.
[[nodiscard]] std::string json_string(std::string_view text);

/// Text of others for a terminal and for one line: control characters and spaces become \xNN.
[[nodiscard]] std::string one_word(std::string_view text);

}  // namespace holdfast::tool

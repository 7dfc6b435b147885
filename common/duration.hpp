#pragma once

#include <chrono>
#include <holdfast/error.hpp>
#include <string_view>

namespace holdfast::detail {

/// "250ms", "10s", "5m", "1h": a whole number and a unit. Errors: invalid_argument, naming the text.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace holdfast::detail

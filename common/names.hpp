#pragma once

#include <cstddef>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

namespace holdfast::detail {

inline constexpr std::size_t kNameLimit = 200;  ///< bytes of a lock name, after encoding

/// Percent-encodes everything but letters, digits, '-', '_', '.' and '~'.
std::string percent_encode(std::string_view text);

/// The reverse; invalid_argument on a broken escape.
Result<std::string> percent_decode(std::string_view text);

/// A lock's name as one path segment: checked (not empty, UTF-8, no longer than kNameLimit once encoded) and
/// percent-encoded, "." and ".." included.
Result<std::string> encode_name(std::string_view name);

/// "host:pid", the label of a client that was given none.
std::string default_label();

}  // namespace holdfast::detail

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// What is wrong, in words, while callers still have context to put in front of it; it becomes an error_code at the end
/// of the way, so that only the whole text is interned.
struct Problem {
  std::string text;
  errc condition = errc::invalid_argument;
};

template <class T>
using Outcome = boost::system::result<T, Problem>;

/// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text) noexcept;

/// The first `limit` bytes at most, never ending in half a UTF-8 character.
std::string_view shorten(std::string_view text, std::size_t limit) noexcept;

/// 'text' for an error message: in quotes, shortened, without control characters.
std::string in_quotes(std::string_view text);

/// A decimal number in its one canonical form: digits only, no leading zero.
std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept;

/// Fence::parse() for a text of which no error is to be made.
std::optional<Fence> parse_fence(std::string_view text) noexcept;

}  // namespace holdfast::detail

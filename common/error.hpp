#pragma once

#include <holdfast/error.hpp>
#include <string_view>

namespace holdfast::detail {

/// An error_code that says in words what is wrong: `message()` is "<condition>: <text>", `value()` the raw code of the
/// service or system (the condition's own number if there is none), and it compares equal to `condition`.
///
/// The text lives in an interned category, since an error_code carries no string of its own. The table is bounded: past
/// its limit a new text is dropped and the plain condition returned.
error_code fail(errc condition, std::string_view text, int raw = 0);

/// fail() for an errno: EACCES, EPERM and EROFS are `denied`, everything else `unavailable`; the text gets strerror
/// appended.
error_code fail_errno(int error, std::string_view text);

/// The condition that an error_code stands for.
errc condition(error_code const& code) noexcept;

}  // namespace holdfast::detail

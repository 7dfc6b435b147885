#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>
#include <boost/system/result.hpp>
#include <holdfast/detail/export.hpp>

namespace holdfast {

/// The few ways in which a call can fail, the same for every backend.
///
/// These are *conditions*: compare an `error_code` with them (`ec == errc::busy`). The code itself keeps the raw number
/// of the service or of the system in `value()`, and `message()` says in words what was wrong and names the culprit.
enum class errc {
  busy = 1,          ///< somebody else has it (`try_acquire`)
  timed_out,         ///< stood in line on a live session until the deadline
  cancelled,         ///< the caller gave up: stop token, Asio cancellation
  lost,              ///< the hold, or the session it rests on, is gone
  unavailable,       ///< the service could not be reached in time
  denied,            ///< credentials or rights do not suffice
  invalid_argument,  ///< a name, key, value or call that cannot be right
  not_supported,     ///< this backend, or this build of it, cannot do that
  stale_fence,       ///< the resource has seen a higher fence
  unknown_outcome,   ///< it was sent; whether it took effect could not be learned in time
  would_deadlock,    ///< a blocking call on the client's own notification thread
  closed,            ///< the client is closed, or this is the child of a fork
  corrupt,           ///< stored state is damaged; nothing was guessed
  conflict,          ///< a key was not as a commit's condition wanted it; nothing was written
};

using error_code = boost::system::error_code;

/// A value, or the error_code that says why there is none. `.value()` throws boost::system::system_error instead.
template <class T>
using Result = boost::system::result<T>;

HOLDFAST_API boost::system::error_category const& error_category() noexcept;

inline boost::system::error_condition make_error_condition(errc e) noexcept {
  return {static_cast<int>(e), error_category()};
}
inline error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

}  // namespace holdfast

template <>
struct boost::system::is_error_condition_enum<holdfast::errc> : std::true_type {};

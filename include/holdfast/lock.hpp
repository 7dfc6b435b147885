#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace holdfast {

namespace detail {
class LockState;
}

/// How one acquire is to be made. Every field has a sensible default.
struct AcquireOptions {
  /// How long to stand in line; unset: as long as it takes. Zero: one look, as `try_acquire`. Negative:
  /// invalid_argument.
  std::optional<std::chrono::nanoseconds> timeout;
  /// Ends the wait with `cancelled` when stop is requested.
  std::stop_token stop;
  /// What others see of this claim; empty: the client's label.
  std::string label;
};

/// A named lock. Cheap to make and to copy; making one talks to nobody.
///
/// Each acquire is a claim of its own: two acquires of one name exclude each other, also through one client. Claims are
/// granted in the order in which the service received them. An acquire waits out an outage of the service until its own
/// deadline; it never hangs past it.
///
/// Thread safety: distinct objects safe; shared objects safe. Completions run on the handler's associated executor,
/// else on the client's notification thread, never inside the initiating call.
class HOLDFAST_API Lock {
 public:
  [[nodiscard]] std::string const& name() const noexcept;

  /// Waits until the lock is ours.
  /// Errors: cancelled, closed, denied, corrupt, would_deadlock (on the notification thread), invalid_argument (a bad
  /// name). Round trips: 1 uncontended; at most 2 from the release of the one ahead.
  [[nodiscard]] Result<Hold> acquire();

  /// The same, for at most `timeout`. Errors: also timed_out (stood in line until the end), unavailable (the service
  /// was out of reach).
  [[nodiscard]] Result<Hold> acquire_for(std::chrono::nanoseconds timeout);

  /// Takes the lock if nobody has it. Bounded by `request_timeout`. Errors: also busy, unavailable. Round trips: 1.
  [[nodiscard]] Result<Hold> try_acquire();

  /// The same with all options.
  [[nodiscard]] Result<Hold> acquire(AcquireOptions options);

  /// Acquires without blocking, for any Boost.Asio completion token; completes with `void(error_code, Hold)`.
  ///
  /// Errors: as acquire. Cancellation: terminal, partial and total all end the wait with `cancelled` and leave nothing
  /// behind; a grant that crosses the cancellation is delivered as a hold or removed, never both, never neither.
  /// Lifetime: the lock may be destroyed at once, the client (or some lock or hold of it) may not: dropping its last
  /// handle ends the wait with `closed`. A completion that cannot run, because its executor is gone, destroys its hold,
  /// which releases the lock.
  template <boost::asio::completion_token_for<void(error_code, Hold)> Token>
  auto async_acquire(AcquireOptions options, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, Hold)>(
        [lock = *this](auto handler, AcquireOptions what) {
          lock.start_acquire(std::move(what),
                             boost::asio::any_completion_handler<void(error_code, Hold)>(std::move(handler)));
        },
        token, std::move(options));
  }

 private:
  friend struct detail::Access;
  explicit Lock(std::shared_ptr<detail::LockState const> state);
  void start_acquire(AcquireOptions options, boost::asio::any_completion_handler<void(error_code, Hold)> handler) const;

  std::shared_ptr<detail::LockState const> state_;
};

}  // namespace holdfast

#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <holdfast/detail/completion.hpp>
#include <holdfast/detail/duration.hpp>
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
  /// What others see of this claim (256 bytes at most); unset: the client's label.
  std::optional<std::string> label;
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
  Lock(Lock const&) = default;  // and so a move is a copy: there is no empty lock
  Lock& operator=(Lock const&) = default;
  ~Lock() = default;

  [[nodiscard]] std::string const& name() const noexcept;

  /// Waits until the lock is ours.
  /// Errors: cancelled, closed, denied, corrupt, would_deadlock (on the notification thread), invalid_argument (a bad
  /// name). Round trips: 1 uncontended; at most 2 from the release of the one ahead.
  [[nodiscard]] Result<Hold> acquire();

  /// The same, for at most `timeout`. Errors: also timed_out (stood in line until the end), unavailable (the service
  /// was out of reach).
  [[nodiscard]] Result<Hold> acquire_for(std::chrono::nanoseconds timeout);
  template <class Rep, class Period>
  [[nodiscard]] Result<Hold> acquire_for(std::chrono::duration<Rep, Period> timeout) {
    return acquire_for(detail::saturated(timeout));
  }

  /// Takes the lock if nobody has it. Bounded by `request_timeout`. Errors: also busy, unavailable. Round trips: 1.
  [[nodiscard]] Result<Hold> try_acquire();

  /// The same with all options.
  [[nodiscard]] Result<Hold> acquire(AcquireOptions options);

  /// Acquires without blocking, for any Boost.Asio completion token; completes with `void(error_code, Hold)`.
  ///
  /// Errors: as acquire. Cancellation: terminal, partial and total all end the wait with `cancelled` and leave nothing
  /// behind; a grant that crosses the cancellation is delivered as a hold or removed, never both, never neither.
  /// Lifetime: the lock may be destroyed at once, the client (or some lock or hold of it) may not: dropping its last
  /// handle ends the wait with `closed`. The handler's execution context must outlive the wait, as with every operation
  /// of Asio; if it is destroyed with the completion still queued in it, the hold is destroyed, which releases the
  /// lock. A handler without an executor of its own that throws ends the process, like any thread that throws.
  ///
  /// In a coroutine give options with `stop` or `label` as a named variable: GCC 12 destroys twice what stands in
  /// braces inside a `co_await` expression. `{}` and `{.timeout = 5s}` are fine.
  template <boost::asio::completion_token_for<void(error_code, Hold)> Token>
  auto async_acquire(AcquireOptions options, Token&& token) const {
    return boost::asio::async_initiate<Token, void(error_code, Hold)>(
        [lock = *this](auto handler, AcquireOptions what) {
          auto const slot = boost::asio::get_associated_cancellation_slot(handler);
          lock.start_acquire(std::move(what), slot,
                             detail::posting<error_code, Hold>(std::move(handler), lock.notifier()));
        },
        token, std::move(options));
  }

 private:
  friend struct detail::Access;
  explicit Lock(std::shared_ptr<detail::LockState const> state);
  boost::asio::any_io_executor notifier() const;
  void start_acquire(AcquireOptions options, boost::asio::cancellation_slot slot,
                     boost::asio::any_completion_handler<void(error_code, Hold)> done) const;

  std::shared_ptr<detail::LockState const> state_;
};

}  // namespace holdfast

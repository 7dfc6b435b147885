#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <holdfast/commit.hpp>
#include <holdfast/detail/completion.hpp>
#include <holdfast/detail/duration.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/sequencer.hpp>
#include <memory>
#include <stop_token>

namespace holdfast {

namespace detail {
class HoldState;
struct Access;
}  // namespace detail

/// One grant of one lock. Whoever owns this object holds the lock until it is released, destroyed or lost.
///
/// Rely on the fence for safety and on `valid()` and `lost()` for courtesy: they let a holder stop in time, the fence
/// makes sure that it does no harm if it did not. A hold is not tied to a thread: move it, and release it anywhere.
///
/// An empty or moved-from hold: `valid()` is false, `valid_for()` zero, `lost()` already stopped, `release()`
/// invalid_argument.
///
/// Thread safety: distinct objects safe; shared objects unsafe, except that `valid()`, `valid_for()` and `lost()` may
/// be called from any thread while no thread moves, releases or destroys the hold. Completions run on the handler's
/// associated executor, else on the client's notification thread.
class HOLDFAST_API Hold {
 public:
  Hold() noexcept;
  Hold(Hold&&) noexcept;
  Hold& operator=(Hold&&) noexcept;

  /// Releases; never blocks, never throws. Clean-up goes on in the background if the service cannot be reached. (If
  /// this is the last handle of its client, the client is closed, as Client says.)
  ~Hold();

  /// The number to send along with every write to what the lock protects.
  [[nodiscard]] Fence fence() const noexcept;

  /// Whether the hold is proven to stand at this instant. Local and cheap (one clock reading), conservative, right at
  /// once after a pause.
  [[nodiscard]] bool valid() const noexcept;

  /// How much proven time is left; renewals lengthen it. Zero once invalid. Capped at ten years where the backend has
  /// no lease (`file:`).
  [[nodiscard]] std::chrono::nanoseconds valid_for() const noexcept;

  /// Fires when the hold can no longer be proven: normally a tenth of the TTL before `valid()` turns false, even if the
  /// service is unreachable and nobody calls anything; at once when the service says that the entry or the session is
  /// gone.
  ///
  /// `hold.lost().stop_requested()` is computed afresh and is right even while callbacks are held up. Stop callbacks
  /// run on the notification thread. A token taken before a clean release never fires. Once fired, the hold does not
  /// come back: take the lock anew.
  [[nodiscard]] std::stop_token lost() const;

  /// The same with a margin of your own: fires when less than `margin` of proven time is left, so that work can be
  /// wound up before the lock can go. Renewals come every third of the TTL, so a margin above two thirds of it fires in
  /// ordinary operation. A process that slept through the margin and is renewed on waking may not have been told of it:
  /// what fires is always true, and `valid_for()` says what is left.
  [[nodiscard]] std::stop_token lost(std::chrono::nanoseconds margin) const;
  template <class Rep, class Period>
  [[nodiscard]] std::stop_token lost(std::chrono::duration<Rep, Period> margin) const {
    return lost(detail::saturated(margin));
  }

  /// A proof of this hold that another process can check.
  [[nodiscard]] Sequencer sequencer() const;

  /// Writes to keys of your own in the coordination service, all or nothing, and only if this hold still stands there.
  ///
  /// Commits of one hold are carried out in the order of the calls. A lost answer is looked into: should it turn out
  /// that nothing was done, the commit is sent again. A copy that arrives late is refused. Waits at most
  /// `request_timeout`. Errors: lost (nothing was written), conflict (a condition was not met; names the key; nothing
  /// was written), unavailable (nothing was written), unknown_outcome (it was sent, and its fate could not be learned
  /// in time: commit the same object again, also after the hold was lost, to be told what became of it; while it is
  /// unknown, and once the hold was lost, that may be `unknown_outcome` again), denied, invalid_argument (a key or a
  /// size), would_deadlock, closed. Round trips: 1; in ZooKeeper one more to compare values, or to make nodes.
  Result<void> commit(Commit const& what);

  /// The same without blocking; completes with `void(error_code)`.
  /// Cancellation: not supported. Lifetime: the hold may be released or destroyed at once; what was not sent by then is
  /// not sent any more, and the lock is given back as soon as what was sent has been answered.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_commit(Commit what, Token&& token) {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_](auto handler, Commit commit) mutable {
          auto const executor = notifier(state.get());
          start_commit(std::move(state), std::move(commit), detail::posting<error_code>(std::move(handler), executor));
        },
        token, std::move(what));
  }

  /// Gives the lock back. The hold is invalid from this call on, whatever the result.
  /// Errors: lost (it was lost before), unknown_outcome (not confirmed by the hold's deadline; clean-up goes on),
  /// would_deadlock, closed, invalid_argument (empty). Round trips: 1.
  Result<void> release();

  /// The same without blocking; completes with `void(error_code)`.
  /// Cancellation: not supported; a release cannot be taken back. Lifetime: the hold may be destroyed at once.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_release(Token&& token) {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = std::move(state_)](auto handler) mutable {
          auto const executor = notifier(state.get());
          start_release(std::move(state), detail::posting<error_code>(std::move(handler), executor));
        },
        token);
  }

 private:
  friend struct detail::Access;
  explicit Hold(std::shared_ptr<detail::HoldState> state) noexcept;
  static boost::asio::any_io_executor notifier(detail::HoldState const* state);
  static void start_commit(std::shared_ptr<detail::HoldState> state, Commit what,
                           boost::asio::any_completion_handler<void(error_code)> done);
  static void start_release(std::shared_ptr<detail::HoldState> state,
                            boost::asio::any_completion_handler<void(error_code)> done);

  std::shared_ptr<detail::HoldState> state_;
};

}  // namespace holdfast

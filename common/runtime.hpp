#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "common/clock.hpp"

namespace holdfast::detail {

/// Time and threads of one client: the real ones (make_thread_runtime), or a virtual clock and no thread at all (the
/// simulation).
///
/// Thread safety: distinct objects safe; shared objects safe.
class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual TimePoint now() const noexcept = 0;

  /// Begins; `alarm` runs on the loop each time the instant given to wake_at has come.
  virtual void start(std::function<void()> alarm) = 0;
  virtual void wake_at(TimePoint when) = 0;

  /// Runs something on the loop: the library's own thread, which renews and times and never runs user code.
  virtual void post(std::function<void()> what) = 0;
  virtual boost::asio::io_context& loop() = 0;

  /// Where user code runs that has no executor of its own: one notification thread, which does not end while somebody
  /// keeps this. After stop(), and in a forked child, another one that outlives every client.
  virtual boost::asio::any_io_executor notifier() = 0;

  virtual bool on_loop() const noexcept = 0;
  virtual bool on_notifier() const noexcept = 0;

  /// Ends both, once what was posted to the notifier has run, or `patience` is over: a thread that is then still in
  /// user code, or is the calling one, ends by itself later.
  virtual void stop(Duration patience) = 0;

  /// Owns `what` until stop(): an end that nobody waits for. On the loop.
  virtual void keep(std::shared_ptr<void> what) = 0;
};

std::shared_ptr<Runtime> make_thread_runtime();

}  // namespace holdfast::detail

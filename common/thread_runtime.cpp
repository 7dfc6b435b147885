#include <pthread.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "common/fork.hpp"
#include "common/runtime.hpp"

namespace holdfast::detail {
namespace {

using boost::asio::io_context;

thread_local void const* current_context = nullptr;

/// One thread of this process, for what a client without threads still has to say: one that is closed, or a copy of the
/// parent's. Never ended: there is no last one to say something.
boost::asio::any_io_executor afterwards() {
  struct Pool {
    unsigned const generation = fork_generation();
    boost::asio::thread_pool threads{1};
  };
  static std::atomic<Pool*> current{nullptr};  // no mutex: a fork may find it locked
  Pool* known = current.load();
  while (!known || known->generation != fork_generation()) {
    auto fresh = std::make_unique<Pool>();
    if (current.compare_exchange_strong(known, fresh.get())) known = fresh.release();
  }
  return known->threads.get_executor();
}

/// Threads made meanwhile take no signals.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(WithoutSignals const&) = delete;

 private:
  sigset_t before_{};
};

/// One io_context run by one thread, which outlives neither its work nor, unless it is stuck in user code, its owner.
class Worker {
 public:
  explicit Worker(char const* name) : name_(name) {}
  Worker(Worker const&) = delete;
  ~Worker() {
    if (!draining_) stop(Duration::zero(), false);  // otherwise it ends by itself, once all is told
  }

  io_context& context() { return state_->context; }
  bool is_current() const noexcept { return current_context == &state_->context; }

  void start() {
    // Signals are the application's business: its handlers must not run on our threads.
    WithoutSignals const quiet;
    thread_ = std::thread([state = state_] {
      current_context = &state->context;
      state->context.run();
      std::lock_guard const guard(state->mutex);
      state->finished = true;
      state->changed.notify_all();
    });
    pthread_setname_np(thread_.native_handle(), name_);
  }

  /// Lets queued work run to its end if `drain`, and waits for the thread.
  void stop(Duration patience, bool drain) {
    draining_ = drain;
    state_->work.reset();
    if (!drain) state_->context.stop();
    if (!thread_.joinable()) return;
    if (is_current() || !wait_finished(patience)) return thread_.detach();
    thread_.join();
  }

 private:
  struct State {
    io_context context{1};
    std::optional<boost::asio::executor_work_guard<io_context::executor_type>> work{context.get_executor()};
    std::mutex mutex;
    std::condition_variable changed;
    bool finished = false;
  };

  bool wait_finished(Duration patience) {
    std::unique_lock guard(state_->mutex);
    return state_->changed.wait_for(guard, patience, [&] { return state_->finished; });
  }

  char const* name_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
  bool draining_ = false;
};

class ThreadRuntime final : public Runtime, public std::enable_shared_from_this<ThreadRuntime> {
 public:
  ThreadRuntime() {
    // CLOCK_BOOTTIME, which Asio's own timers do not know: after a suspend they would be late by its length.
    int const fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0) throw boost::system::system_error(errno, boost::system::system_category(), "timerfd_create");
    timer_.assign(fd);
    close_in_child(fd);
  }

  ~ThreadRuntime() override {
    keep_in_child(timer_.native_handle());
    timer_.close();
  }

  TimePoint now() const noexcept override { return BootClock::now(); }

  void start(std::function<void()> alarm) override {
    alarm_ = std::move(alarm);
    await_timer();
    loop_.start();
    notify_.start();
  }

  void wake_at(TimePoint when) override {
    itimerspec spec{};
    if (when != kNever) {
      auto const ns = std::max(when.time_since_epoch(), Duration(1)).count();  // zero would disarm
      spec.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
      spec.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    }
    ::timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  void post(std::function<void()> what) override { boost::asio::post(loop_.context(), std::move(what)); }
  io_context& loop() override { return loop_.context(); }
  boost::asio::any_io_executor notifier() override {
    if (born_ == fork_generation()) {
      std::lock_guard const guard(mutex_);
      if (!stopped_)
        return boost::asio::prefer(notify_.context().get_executor(), boost::asio::execution::outstanding_work.tracked);
    }
    return afterwards();
  }
  bool on_loop() const noexcept override { return loop_.is_current(); }
  bool on_notifier() const noexcept override { return notify_.is_current(); }

  void stop(Duration patience) override {
    {
      std::lock_guard const guard(mutex_);
      stopped_ = true;
    }
    loop_.stop(patience, false);
    notify_.stop(patience, true);
    kept_.reset();
  }
  void keep(std::shared_ptr<void> what) override { kept_ = std::move(what); }

 private:
  void await_timer() {
    timer_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this, weak = weak_from_this()](boost::system::error_code ec) {
                        auto const self = weak.lock();
                        if (ec || !self) return;
                        std::uint64_t expirations = 0;
                        [[maybe_unused]] auto const n =
                            ::read(timer_.native_handle(), &expirations, sizeof expirations);
                        await_timer();
                        alarm_();
                      });
  }

  Worker loop_{"holdfast"};
  Worker notify_{"holdfast-notify"};
  boost::asio::posix::stream_descriptor timer_{loop_.context()};
  std::function<void()> alarm_;
  std::shared_ptr<void> kept_;
  unsigned const born_ = fork_generation();
  std::mutex mutex_;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<Runtime> make_thread_runtime() { return std::make_shared<ThreadRuntime>(); }

}  // namespace holdfast::detail

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/answer.hpp"
#include "common/backend.hpp"
#include "common/claim.hpp"
#include "common/fork.hpp"
#include "common/runtime.hpp"
#include "common/session.hpp"
#include "common/timers.hpp"

namespace holdfast::detail {

/// One client: its session, its claims, its timers, behind one monitor.
///
/// Whoever has something for the core (a caller, the loop, a service's thread) runs it itself inside the monitor, by
/// enter(): an uncontended acquire on a local backend thus takes no change of threads. What concerns user code never
/// runs in there: it is put into the outbox, and handed to the user's executor or to the notifier once the monitor is
/// left.
///
/// Thread safety: distinct objects safe; shared objects: the first group safe, everything else inside the monitor.
class Core final : public Host, public std::enable_shared_from_this<Core> {
 public:
  Core(Config config, std::shared_ptr<Runtime> runtime);

  // On any thread.

  using MakeBackend = std::function<Result<std::unique_ptr<Backend>>(Config const&, Host&)>;

  /// Starts the runtime and the backend, without waiting for a session.
  Result<void> open(MakeBackend const& make);

  /// Waits for a session, at most `connect_timeout`.
  Result<void> await_session();

  /// Ends everything; see Client::close.
  Result<void> close();

  /// Runs `what` inside the monitor, then whatever it deferred, then hands out what came of it.
  template <class What>
  void enter(What const& what) {
    Outbox out;
    {
      std::lock_guard const guard(monitor_);
      what();
      out = settle();
    }
    for (auto const& each : out) each();
  }

  /// Starts a claim made for this core; its outcome is told inside the monitor.
  void start(std::shared_ptr<Claim> const& claim);

  /// Asks the backend something and waits for the answer, at most `request_timeout`.
  template <class T>
  Result<T> ask(std::function<void(Reply<T>)> const& verb);

  Config const& config() const { return config_; }
  Runtime& runtime() { return *runtime_; }
  bool forked() const noexcept { return born_ != fork_generation(); }
  /// Why no call may be made here and now: closed (also after a fork) or would_deadlock; success if one may.
  error_code refuse(bool blocking) const;
  std::optional<std::chrono::milliseconds> ttl();
  std::string place();

  TimePoint now() const noexcept override { return runtime_->now(); }
  void post(std::function<void()> what) override;
  boost::asio::io_context& loop() override { return runtime_->loop(); }

  // Host: what the backend reports and uses.
  void up(SessionInfo info) override;
  void proven(TimePoint sent) override;
  void suspect() override;
  void resumed() override;
  void lost() override;
  void removed(std::string const& line, EntryRef const& entry) override;
  void failed(error_code why) override;
  TimerId at(TimePoint when, std::function<void()> what) override { return timers_.add(when, std::move(what)); }
  void cancel(TimerId timer) override { timers_.cancel(timer); }
  void defer(std::function<void()> what) override { todo_.push_back(std::move(what)); }
  void log(LogLevel level, std::string message) override;

  // What claims use.
  Backend& backend() { return *backend_; }
  std::shared_ptr<Session> const& session() const { return session_; }
  bool is_suspect() const { return suspect_; }
  error_code unreachable() const;
  TimePoint release_deadline(Session const& session) const;
  void alarms_changed();
  void own(Claim& claim) { own_[{claim.line(), claim.entry()}] = &claim; }
  void disown(Claim& claim);
  Claim* find_own(std::string const& line, EntryRef const& entry) const;
  void forget(Claim& claim) { claims_.erase(claim.id()); }
  void request_stop(std::stop_source source);
  void hand_out(std::function<void()> what) { outbox_.push_back(std::move(what)); }

 private:
  using Outbox = std::vector<std::function<void()>>;

  std::vector<std::shared_ptr<Claim>> claims() const;
  Outbox settle();  ///< what has to be done before the monitor is left
  void run_deferred();
  void run_timers();
  void await_end();
  void stopped();  ///< the backend's end is confirmed, or no longer waited for

  Config const config_;
  std::shared_ptr<Runtime> const runtime_;
  unsigned const born_ = fork_generation();
  error_code const forked_;  ///< made beforehand: in a forked child the table of texts may be locked for ever

  mutable std::mutex monitor_;
  std::condition_variable changed_;  ///< session up or failed, stopped
  std::deque<std::function<void()>> todo_;
  Outbox outbox_;
  Timers timers_;
  TimePoint armed_ = kNever;
  TimerId alarm_timer_ = 0;

  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Session> session_;
  bool suspect_ = false;
  error_code last_failure_;
  std::uint64_t last_claim_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Claim>> claims_;  ///< in the order of their making, and so of re-joining
  std::map<std::pair<std::string, EntryRef>, Claim*> own_;
  std::atomic<bool> closed_{false};
  bool stopped_ = false;
  std::map<std::uint64_t, std::function<void(error_code)>> asked_;  ///< who waits in ask()
  std::uint64_t last_asked_ = 0;
  error_code close_outcome_;
  bool unattended_ = false;  ///< closed by one who cannot wait
};

/// What Client, Lock and Hold share; the last one to go closes the core.
class Handle {
 public:
  explicit Handle(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  Handle(Handle const&) = delete;
  ~Handle();

  Core& core() const { return *core_; }
  std::shared_ptr<Core> const& shared_core() const { return core_; }

 private:
  std::shared_ptr<Core> core_;
};

template <class T>
Result<T> Core::ask(std::function<void(Reply<T>)> const& verb) {
  using boost::system::in_place_error;  // a Result<bool> does not take an error_code by itself
  if (auto const no = refuse(true)) return {in_place_error, no};
  auto const answer = std::make_shared<Answer<Result<T>>>();
  enter([&] {
    if (closed_) return answer->give({in_place_error, make_error_code(errc::closed)});
    if (!session_) return answer->give({in_place_error, unreachable()});
    auto const id = ++last_asked_;
    asked_.emplace(id, [answer](error_code why) { answer->give({in_place_error, why}); });
    auto const timer = at(now() + config_.request_timeout, [this, answer, id] {
      asked_.erase(id);
      answer->give({in_place_error, unreachable()});
    });
    verb([this, answer, timer, id](Result<T> result) {
      cancel(timer);
      asked_.erase(id);
      answer->give(std::move(result));
    });
  });
  return answer->wait();
}

}  // namespace holdfast::detail

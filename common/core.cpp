#include "common/core.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <new>

#include "common/error.hpp"

namespace holdfast::detail {
namespace {

/// Trying again would not help: who waits is told at once.
bool is_final(error_code const& why) {
  switch (condition(why)) {
    case errc::denied:
    case errc::corrupt:
    case errc::not_supported:
    case errc::invalid_argument: return true;
    default: return false;
  }
}

}  // namespace

Core::Core(Config config, std::shared_ptr<Runtime> runtime)
    : config_(std::move(config)),
      runtime_(std::move(runtime)),
      forked_(fail(errc::closed, "this client belongs to the parent process; connect anew after a fork")) {}

// ---- the monitor

Core::Outbox Core::settle() {
  run_deferred();
  if (TimePoint const next = timers_.next(); next != armed_) {
    armed_ = next;
    runtime_->wake_at(next);
  }
  return std::exchange(outbox_, {});
}

void Core::run_deferred() {
  while (!todo_.empty()) {
    auto const next = std::move(todo_.front());
    todo_.pop_front();
    next();
  }
}

void Core::post(std::function<void()> what) {
  runtime_->post([weak = weak_from_this(), what = std::move(what)] {
    if (auto const self = weak.lock()) self->enter(what);
  });
}

void Core::run_timers() {
  armed_ = kNever;
  while (auto const due = timers_.take_due(now())) {
    due();
    run_deferred();
  }
}

// ---- beginning and end

Result<void> Core::open(MakeBackend const& make) {
  runtime_->start([weak = weak_from_this()] {
    if (auto const self = weak.lock()) self->enter([&self] { self->run_timers(); });
  });
  auto made = make(config_, *this);
  if (!made) return made.error();
  enter([&] {
    backend_ = std::move(*made);
    backend_->start();
  });
  return {};
}

Result<void> Core::await_session() {
  std::unique_lock guard(monitor_);
  changed_.wait_for(guard, config_.connect_timeout,
                    [&] { return session_ || (last_failure_ && is_final(last_failure_)); });
  if (session_) return {};
  return unreachable();
}

Result<void> Core::close() {
  bool const on_loop = runtime_->on_loop();  // then nobody waits below, and the end comes later, without a caller
  bool first = false;
  enter([&] {
    first = !closed_.exchange(true);
    if (!first) return;
    if (auto const last = std::exchange(session_, nullptr)) last->end();
    for (auto const& claim : claims()) claim->close();
    for (auto const& [id, tell] : std::exchange(asked_, {})) tell(make_error_code(errc::closed));
    if (on_loop) {
      unattended_ = true;
      runtime_->keep(shared_from_this());
      at(now() + config_.close_timeout, [this] { stopped(); });
    }
    if (!backend_) return stopped();
    backend_->stop([this] { stopped(); });
  });
  if (first && !on_loop) await_end();
  std::lock_guard const guard(monitor_);
  if (close_outcome_) return close_outcome_;
  return {};
}

void Core::await_end() {
  {
    std::unique_lock guard(monitor_);
    changed_.wait_for(guard, config_.close_timeout, [&] { return stopped_; });
  }
  runtime_->stop(config_.close_timeout);
  enter([&] {
    if (stopped_) return;
    close_outcome_ = make_error_code(errc::unknown_outcome);
    backend_->abandon();
  });
}

void Core::stopped() {
  stopped_ = true;
  changed_.notify_all();
  if (unattended_) hand_out([runtime = runtime_] { runtime->stop(Duration::zero()); });
}

error_code Core::refuse(bool blocking) const {
  if (forked()) return forked_;
  if (closed_.load(std::memory_order_relaxed)) return make_error_code(errc::closed);
  if (blocking && (runtime_->on_notifier() || runtime_->on_loop())) return make_error_code(errc::would_deadlock);
  return {};
}

Handle::~Handle() {
  // In a forked child the monitor may be locked for ever and the threads do not exist: let go of the copy untouched.
  if (core_->forked()) {
    new (::operator new(sizeof core_)) std::shared_ptr<Core>(std::move(core_));
    return;
  }
  (void)core_->close();
}

// ---- claims

void Core::start(std::shared_ptr<Claim> const& claim) {
  enter([&] {
    if (closed_) return claim->give_up(make_error_code(errc::closed));
    claims_.emplace(++last_claim_, claim);
    claim->start(last_claim_);
  });
}

std::vector<std::shared_ptr<Claim>> Core::claims() const {
  std::vector<std::shared_ptr<Claim>> all;
  all.reserve(claims_.size());
  for (auto const& [id, claim] : claims_) all.push_back(claim);
  return all;
}

void Core::disown(Claim& claim) {
  auto const place = own_.find({claim.line(), claim.entry()});
  if (place != own_.end() && place->second == &claim) own_.erase(place);
}

Claim* Core::find_own(std::string const& line, EntryRef const& entry) const {
  auto const place = own_.find({line, entry});
  return place == own_.end() ? nullptr : place->second;
}

void Core::request_stop(std::stop_source source) {
  hand_out([runtime = runtime_, source = std::move(source)]() mutable {
    boost::asio::post(runtime->notifier(), [source = std::move(source)]() mutable { source.request_stop(); });
  });
}

TimePoint Core::release_deadline(Session const& session) const {
  return session.until() == kNever ? now() + config_.request_timeout : session.until();
}

error_code Core::unreachable() const { return last_failure_ ? last_failure_ : make_error_code(errc::unavailable); }

// ---- the session

void Core::up(SessionInfo info) {
  session_ = std::make_shared<Session>(std::move(info), config_.drift);
  suspect_ = false;
  last_failure_ = {};
  log(LogLevel::info, "session open with " + session_->info().place);
  changed_.notify_all();
  for (auto const& claim : claims()) claim->session_up();
}

void Core::proven(TimePoint sent) {
  if (!session_) return;
  session_->prove(sent);
  alarms_changed();
  for (auto const& claim : claims()) claim->session_proven();
}

void Core::suspect() {
  if (suspect_) return;
  suspect_ = true;
  log(LogLevel::warning, "connection lost; holds stay valid until their deadline");
}

void Core::resumed() {
  if (!suspect_) return;
  suspect_ = false;
  last_failure_ = {};
  log(LogLevel::info, "connected again, same session");
}

void Core::lost() {
  if (!session_) return;
  log(LogLevel::error, "session lost; its holds are lost");
  auto const old = std::exchange(session_, nullptr);
  old->end();
  for (auto const& claim : claims()) claim->session_lost();
}

void Core::removed(std::string const& line, EntryRef const& entry) {
  if (Claim* const claim = find_own(line, entry)) {
    log(LogLevel::error, "entry removed by somebody else in the line of " + line);
    claim->shared_from_this()->entry_removed();
  }
}

void Core::failed(error_code why) {
  if (why != last_failure_) log(LogLevel::warning, (session_ ? "not connected: " : "no session: ") + why.message());
  last_failure_ = why;
  changed_.notify_all();
  if (is_final(why))
    for (auto const& claim : claims()) claim->session_refused(why);
}

/// One timer serves all holds: it goes off when the widest margin is reached, and then sees who else is due.
void Core::alarms_changed() {
  cancel(std::exchange(alarm_timer_, 0));
  if (!session_) return;
  TimePoint const next = session_->next_alarm();
  if (next == kNever) return;
  alarm_timer_ = at(next, [this] {
    alarm_timer_ = 0;
    if (auto const current = session_)
      while (auto const due = current->take_due(now())) due();
    alarms_changed();
  });
}

void Core::log(LogLevel level, std::string message) {
  if (!config_.log) return;
  hand_out([runtime = runtime_, sink = config_.log, level, message = std::move(message)] {
    boost::asio::post(runtime->notifier(), [sink, level, message] { sink(level, message); });
  });
}

std::optional<std::chrono::milliseconds> Core::ttl() {
  std::lock_guard const guard(monitor_);
  return session_ ? session_->info().ttl : std::nullopt;
}

std::string Core::place() {
  std::lock_guard const guard(monitor_);
  return session_ ? session_->info().place : std::string();
}

}  // namespace holdfast::detail

#include "common/claim.hpp"

#include <algorithm>

#include "common/core.hpp"
#include "common/error.hpp"

namespace holdfast::detail {

using namespace std::chrono_literals;

namespace {

constexpr Duration kLeaveRetry = 1s;  ///< after the store itself refused to remove an entry (a full disk, say)

std::stop_token stopped_token() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

}  // namespace

TimePoint Claim::until() const noexcept {
  return std::min(session_->until(), TimePoint(Duration(cap_.load(std::memory_order_acquire))));
}

// ---- standing in line

void Claim::start(std::uint64_t id) {
  id_ = id;
  if (!wanted()) return end();  // cancelled before it began
  if (request_.deadline != kNever)
    timer_ = core_.at(request_.deadline, [self = shared_from_this()] { self->deadline_passed(); });
  join();
}

void Claim::join() {
  state_ = State::parked;
  if (!core_.session()) return;
  state_ = State::joining;
  session_ = core_.session();
  core_.backend().join({request_.line, request_.kind, request_.rule, request_.label, request_.only_if_free},
                       [self = shared_from_this()](Result<Joined> reply) { self->joined(std::move(reply)); });
}

void Claim::joined(Result<Joined> reply) {
  if (!reply && reply.error() == errc::lost) {
    if (!wanted()) return end();
    if (core_.session() != session_) return rejoin();
    state_ = State::parked;  // the session's loss has yet to be told; the next one takes this up again
    return;
  }
  if (!reply) {
    finish(reply.error());
    return end();
  }
  entry_ = reply->self;
  core_.own(*this);
  if (!wanted()) return leave();
  consider(std::move(reply->ahead));
}

void Claim::consider(Ahead ahead) {
  state_ = State::waiting;
  ahead_ = std::move(ahead);
  // An entry of ours that held the lock and is being removed has nobody ahead of it and harms nobody: it counts as
  // gone.
  if (!ahead_.nearest.empty()) {
    Claim const* const mine = core_.find_own(request_.line, ahead_.nearest.front());
    if (mine && mine->state_ == State::leaving && mine->held_exclusively()) ahead_ = {};
  }
  if (ahead_.grants(request_.rule)) return grant();
  if (request_.only_if_free) return give_up(make_error_code(errc::busy));
  for (auto const& entry : std::vector(ahead_.nearest)) wait_for(entry);
}

void Claim::wait_for(EntryRef const& entry) {
  if (Claim* const mine = core_.find_own(request_.line, entry)) {
    mine->followers_[id_] = weak_from_this();
    return;
  }
  watches_.push_back(
      core_.backend().await_gone(request_.line, entry, [weak = weak_from_this(), entry](bool nobody_ahead) {
        if (auto const self = weak.lock()) self->gone(entry, nobody_ahead);
      }));
}

void Claim::gone(EntryRef const& entry, bool nobody_ahead) {
  if (state_ != State::waiting || std::erase(ahead_.nearest, entry) == 0) return;
  if (nobody_ahead) ahead_ = {};
  unwatch();
  if (!ahead_.more && ahead_.grants(request_.rule)) return grant();
  look();
}

void Claim::unwatch() {
  for (WatchId const watch : watches_) core_.backend().forget(watch);
  watches_.clear();
}

void Claim::look() {
  ++attempt_;
  core_.backend().look(request_.line, entry_, request_.rule,
                       [self = shared_from_this(), attempt = attempt_](Result<std::optional<Ahead>> reply) {
                         if (self->attempt_ != attempt || self->state_ != State::waiting) return;
                         if (!reply && reply.error() == errc::lost) return;  // session_lost() follows, or came before
                         if (!reply) return self->give_up(reply.error());
                         if (!*reply) return self->entry_removed();
                         self->consider(std::move(**reply));
                       });
}

void Claim::rejoin() {
  unwatch();
  wake_followers(false);
  ++attempt_;  // the answer to a look for the old entry is none for the new one
  core_.disown(*this);
  entry_ = {};
  session_ = nullptr;
  join();
}

void Claim::session_up() {
  if (state_ == State::parked && wanted()) join();
}

void Claim::session_refused(error_code why) {
  if ((state_ == State::parked || state_ == State::joining) && wanted()) give_up(why);
}

// ---- the outcome

void Claim::finish(error_code result) {
  core_.cancel(std::exchange(timer_, 0));
  if (auto const done = std::exchange(done_, nullptr)) done(result);
}

void Claim::deadline_passed() {
  timer_ = 0;
  bool const in_line = state_ == State::waiting && !core_.is_suspect();
  give_up(in_line ? make_error_code(errc::timed_out) : core_.unreachable());
}

void Claim::give_up(error_code why) {
  if (!wanted()) return;
  finish(why);
  switch (state_) {
    case State::parked: return end();
    case State::joining: return;  // the answer comes, and finds that nobody wants it
    default: return leave();
  }
}

void Claim::grant() {
  // Never on a session that may be over: wait for a proof, or for its loss.
  state_ = State::unproven;
  if (session_->until() <= later(core_.now(), session_->margin())) return;
  state_ = State::held;
  was_held_ = true;
  alarms_.push_back(session_->add_alarm(session_->margin(), [weak = weak_from_this()] {
    if (auto const self = weak.lock()) self->running_out();
  }));
  core_.alarms_changed();
  finish({});
}

void Claim::session_proven() {
  if (state_ == State::unproven) grant();
}

// ---- the hold

std::stop_token Claim::lost_token(Duration margin) {
  if (state_ != State::held || lost_) return stopped_token();
  margin = std::max(margin, session_->margin());
  if (until() != kNever && until() - core_.now() <= margin) return stopped_token();
  auto const [told, fresh] = told_.try_emplace(margin);
  if (fresh && margin > session_->margin()) {
    alarms_.push_back(
        session_->add_alarm(margin, [&core = core_, source = told->second] { core.request_stop(source); }));
    core_.alarms_changed();
  }
  return told->second.get_token();
}

/// The proof is about to run out: the owner is told while there is still time to stop. The entry stays until the hold
/// is no longer valid.
void Claim::running_out() {
  if (state_ != State::held || lost_) return;
  cap_.store(std::min(cap_.load(), session_->until().time_since_epoch().count()), std::memory_order_release);
  declare_lost();
  timer_ = core_.at(until(), [self = shared_from_this()] {
    self->timer_ = 0;
    if (self->state_ == State::held) self->leave();
  });
}

void Claim::declare_lost() {
  if (std::exchange(lost_, true)) return;
  for (auto const& [margin, source] : told_) core_.request_stop(source);
}

void Claim::entry_removed() {
  switch (state_) {
    case State::waiting:
    case State::unproven: return rejoin();
    case State::held:
      invalidate();
      declare_lost();
      wake_followers(false);
      return end();
    case State::settling: return left(make_error_code(errc::lost));
    default: return;
  }
}

void Claim::session_lost() {
  switch (state_) {
    case State::waiting:
    case State::unproven: return rejoin();
    case State::held:
      invalidate();
      declare_lost();
      return end();
    case State::settling: return left(make_error_code(errc::lost));
    case State::leaving:
      if (retry_ != 0) end();
      return;  // otherwise the verb is answered with `lost`, as it is while joining
    default: return;
  }
}

void Claim::close() {
  if (commits_) commits_->close();
  if (auto const tell = std::exchange(released_, nullptr)) tell(make_error_code(errc::closed));
  session_lost();
  give_up(make_error_code(errc::closed));
}

void Claim::release(Done done) {
  bool const was_lost = lost_ || until() <= core_.now();
  invalidate();
  if (state_ == State::over || was_lost) {
    if (done) done(make_error_code(errc::lost));
    done = nullptr;
  }
  if (state_ != State::held) return;
  core_.cancel(std::exchange(timer_, 0));
  if (done) {
    released_ = std::move(done);
    timer_ = core_.at(core_.release_deadline(*session_), [self = shared_from_this()] {
      self->timer_ = 0;
      if (auto const tell = std::exchange(self->released_, nullptr)) tell(make_error_code(errc::unknown_outcome));
    });
  }
  leave();
}

void Claim::commit(Commit what, Done done) {
  if (commits_ && commits_->ask_again(what, done)) return;
  if (state_ != State::held || until() <= core_.now()) return done(make_error_code(errc::lost));
  if (!commits_) commits_ = std::make_shared<Commits>(core_, request_.line, entry_);
  commits_->add(std::move(what), std::move(done));
}

// ---- leaving

void Claim::leave() {
  unwatch();
  invalidate();
  cancel_alarms();
  if (!commits_) return remove();
  state_ = State::settling;
  commits_->end([self = shared_from_this()] {
    if (self->state_ == State::settling) self->remove();
  });
}

void Claim::remove() {
  state_ = State::leaving;
  // Whoever of ours comes next need not wait for the removal to be confirmed: the hold is over, and nobody else can
  // come in between.
  if (held_exclusively()) wake_followers(true);
  core_.backend().leave(request_.line, entry_, held_exclusively(),
                        [self = shared_from_this()](Result<void> reply) { self->left(reply); });
}

void Claim::left(Result<void> reply) {
  bool const gone = reply || reply.error() == errc::lost;
  core_.cancel(std::exchange(timer_, 0));
  if (auto const tell = std::exchange(released_, nullptr)) tell(gone ? error_code() : reply.error());
  if (gone) {
    wake_followers(false);
    return end();
  }
  retry_ = core_.at(core_.now() + kLeaveRetry, [self = shared_from_this()] {
    self->retry_ = 0;
    if (self->state_ == State::leaving) self->remove();
  });
}

void Claim::wake_followers(bool nobody_ahead) {
  for (auto const& [id, weak] : std::exchange(followers_, {}))
    core_.defer([weak = weak, entry = entry_, nobody_ahead] {
      if (auto const follower = weak.lock()) follower->gone(entry, nobody_ahead);
    });
}

void Claim::cancel_alarms() {
  for (auto const& alarm : alarms_) session_->cancel_alarm(alarm);
  alarms_.clear();
}

void Claim::end() {
  state_ = State::over;
  core_.cancel(std::exchange(timer_, 0));
  core_.cancel(std::exchange(retry_, 0));
  cancel_alarms();
  core_.disown(*this);
  core_.forget(*this);
}

}  // namespace holdfast::detail

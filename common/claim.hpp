#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/commits.hpp"
#include "common/session.hpp"

namespace holdfast::detail {

class Core;

/// What somebody asked for.
struct Request {
  std::string line;  ///< encoded name
  Kind kind = Kind::lock;
  Rule rule = kExclusive;
  std::string label;
  TimePoint deadline = kNever;
  bool only_if_free = false;
};

/// One acquire from its start to the removal of its entry: it joins the line, waits by the rule, is granted, held, and
/// leaves.
///
/// A state machine without input or output of its own: the core calls it, and it calls the backend's verbs. It outlives
/// the call that made it, so that an entry is removed even if nobody waits for that any more.
///
/// Thread safety: distinct objects safe; shared objects: the first group safe, everything else inside the monitor.
class Claim : public std::enable_shared_from_this<Claim> {
 public:
  using Done = std::function<void(error_code)>;

  /// `done` is told the outcome, once, inside the monitor.
  Claim(Core& core, Request request, Done done) : core_(core), request_(std::move(request)), done_(std::move(done)) {}

  // Of a granted claim, on any thread.
  std::uint64_t number() const noexcept { return entry_.number; }
  EntryRef const& entry() const noexcept { return entry_; }
  std::string const& line() const noexcept { return request_.line; }
  std::string const& label() const noexcept { return request_.label; }
  std::string const& place() const noexcept { return session_->info().place; }
  TimePoint until() const noexcept;              ///< proven to be held until then
  void invalidate() noexcept { cap_.store(0); }  ///< valid() is false from now on

  // By whoever asked.
  void start(std::uint64_t id);
  void give_up(error_code why);                 ///< deadline, cancellation, close: ends the wait, removes the entry
  void release(Done done);                      ///< ends the hold; `done` may be empty
  std::stop_token lost_token(Duration margin);  ///< at least the session's own margin
  void commit(Commit what, Done done);

  // By the core.
  std::uint64_t id() const { return id_; }
  void session_up();
  void session_proven();
  void session_lost();
  void session_refused(error_code why);  ///< no session can be had, for good
  void entry_removed();
  void close();

 private:
  /// `settling`: no hold any more, but what became of a commit under its guard has yet to be learned. Only then may the
  /// entry go, and the next one come.
  enum class State { parked, joining, waiting, unproven, held, settling, leaving, over };

  bool wanted() const { return static_cast<bool>(done_); }
  void finish(error_code result);
  void join();
  void joined(Result<Joined> reply);
  void consider(Ahead ahead);
  void wait_for(EntryRef const& entry);
  void gone(EntryRef const& entry, bool nobody_ahead);
  void look();
  void unwatch();
  void grant();
  void deadline_passed();
  void running_out();
  void declare_lost();
  void rejoin();
  void leave();
  void remove();
  void left(Result<void> reply);
  void wake_followers(bool nobody_ahead);
  void cancel_alarms();
  void end();
  bool held_exclusively() const { return was_held_ && request_.rule.exclusive(); }

  Core& core_;
  std::uint64_t id_ = 0;  ///< the order of starting
  Request request_;
  Done done_;      ///< until the outcome is told
  Done released_;  ///< until the end of a release is told
  State state_ = State::parked;
  std::shared_ptr<Session> session_;
  EntryRef entry_;
  Ahead ahead_;
  unsigned attempt_ = 0;  ///< tells the answer to an earlier look from that to the last one
  std::vector<WatchId> watches_;
  std::map<std::uint64_t, std::weak_ptr<Claim>> followers_;  ///< claims of this client that wait for this one to go
  TimerId timer_ = 0;                                        ///< the deadline: of the wait, then of the release
  TimerId retry_ = 0;
  bool was_held_ = false;
  std::shared_ptr<Commits> commits_;  ///< from the first one on

  /// Validity ends here even if the session lives on.
  std::atomic<Duration::rep> cap_{kNever.time_since_epoch().count()};
  bool lost_ = false;
  std::map<Duration, std::stop_source> told_;  ///< who is to be told of the loss, by margin
  std::vector<Session::AlarmId> alarms_;
};

}  // namespace holdfast::detail

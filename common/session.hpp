#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <utility>

#include "common/backend.hpp"
#include "common/clock.hpp"

namespace holdfast::detail {

/// What this client knows of one session: until when it is proven to live, and who wants to be told how long before
/// that runs out.
///
/// Thread safety: distinct objects safe; shared objects: until() safe, everything else inside the monitor.
class Session {
 public:
  using AlarmId = std::pair<Duration, std::uint64_t>;  ///< its margin, and a number to tell equals apart

  Session(SessionInfo info, double drift) : info_(std::move(info)) {
    if (!info_.ttl) {
      until_.store(kNever.time_since_epoch().count(), std::memory_order_relaxed);
      return;
    }
    ttl_ = *info_.ttl;
    lease_ = ttl_ - Duration(static_cast<Duration::rep>(static_cast<double>(ttl_.count()) * drift));
    prove(info_.sent);
  }

  SessionInfo const& info() const { return info_; }

  /// The instant up to which holds of this session are proven.
  TimePoint until() const noexcept { return TimePoint(Duration(until_.load(std::memory_order_acquire))); }

  /// The session lived when something sent at `sent` reached the service, so it lives for a lease from then. Never
  /// shortens.
  void prove(TimePoint sent) {
    if (!info_.ttl || over_) return;
    auto const proven = (sent + lease_).time_since_epoch().count();
    if (proven > until_.load(std::memory_order_relaxed)) until_.store(proven, std::memory_order_release);
  }

  /// The service said that it is gone.
  void end() {
    over_ = true;
    until_.store(0, std::memory_order_release);
  }

  /// How long before the end of the proof a hold is given up: time for its owner to stop.
  Duration margin() const { return ttl_ / 10; }

  /// Has `what` done once less than `margin` of proven time is left.
  AlarmId add_alarm(Duration margin, std::function<void()> what) {
    AlarmId const id{margin, ++last_alarm_};
    alarms_.emplace(id, std::move(what));
    return id;
  }
  void cancel_alarm(AlarmId const& id) { alarms_.erase(id); }

  TimePoint next_alarm() const {
    return alarms_.empty() || until() == kNever ? kNever : until() - alarms_.begin()->first.first;
  }

  /// Takes out one alarm that is due; empty if there is none.
  std::function<void()> take_due(TimePoint now) {
    if (alarms_.empty() || next_alarm() > now) return {};
    auto node = alarms_.extract(alarms_.begin());
    return std::move(node.mapped());
  }

 private:
  SessionInfo info_;
  Duration ttl_{};
  Duration lease_{};  ///< the ttl, shortened by the drift allowance
  std::atomic<Duration::rep> until_{0};
  bool over_ = false;
  std::map<AlarmId, std::function<void()>, std::greater<>> alarms_;  ///< the widest margin first: it goes off first
  std::uint64_t last_alarm_ = 0;
};

}  // namespace holdfast::detail

#pragma once

#include <deque>
#include <optional>

#include "common/clock.hpp"

namespace holdfast::detail {

/// Until when a ZooKeeper session is proven to live, for one connection: what was answered on an earlier one was
/// perhaps never passed on. Time comes from outside; nothing is sent from here.
///
/// A follower notes every packet of a client, and tells the leader of it with its next ping reply, at least every
/// `lag`, on the same ordered link on which it forwards writes. So a write that the leader accepted tells two things:
/// the session lived, and the leader had by then heard of every request that the follower had answered a `lag` before
/// the write was sent. The session then lives for a whole timeout from the sending of the latest of these. Two writes
/// close together prove nothing of the kind: a write by itself does not renew a session.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Proof {
 public:
  explicit Proof(Duration lag) : lag_(lag) {}

  /// Any request sent at `sent` had been answered by `answered`.
  void answered(TimePoint sent, TimePoint answered) {
    // Evidence this close to the last is worth little; without it the list stays short.
    if (!evidence_.empty() && sent < evidence_.back().sent + lag_ / 8) return;
    evidence_.push_back({sent, answered});
    while (evidence_.size() > kMost) evidence_.pop_front();
  }

  /// A write sent at `sent` was confirmed: the session lives for a timeout from the instant returned.
  std::optional<TimePoint> confirmed(TimePoint sent) const {
    for (auto each = evidence_.rbegin(); each != evidence_.rend(); ++each)
      if (each->answered + lag_ <= sent) return each->sent;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMost = 64;  ///< eight lags' worth: two timeouts

  struct Evidence {
    TimePoint sent;
    TimePoint answered;
  };

  Duration lag_;
  std::deque<Evidence> evidence_;  ///< oldest first
};

}  // namespace holdfast::detail

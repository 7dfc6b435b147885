#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "common/clock.hpp"

namespace holdfast::detail {

/// What is to be done when, in order of time and, within one instant, of asking. Plain data: somebody else owns the
/// clock.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Timers {
 public:
  using Id = std::uint64_t;  ///< never 0

  Id add(TimePoint when, std::function<void()> what) {
    Id const id = ++last_;
    places_.emplace(id, queue_.emplace(when, Timer{id, std::move(what)}));
    return id;
  }

  void cancel(Id id) {
    auto const place = places_.find(id);
    if (place == places_.end()) return;
    queue_.erase(place->second);
    places_.erase(place);
  }

  [[nodiscard]] TimePoint next() const { return queue_.empty() ? kNever : queue_.begin()->first; }

  /// Takes out one timer that is due at `now`; empty if there is none.
  std::function<void()> take_due(TimePoint now) {
    if (next() > now || queue_.empty()) return {};
    auto node = queue_.extract(queue_.begin());
    places_.erase(node.mapped().id);
    return std::move(node.mapped().what);
  }

 private:
  struct Timer {
    Id id;
    std::function<void()> what;
  };
  std::multimap<TimePoint, Timer> queue_;
  std::unordered_map<Id, std::multimap<TimePoint, Timer>::iterator> places_;
  Id last_ = 0;
};

}  // namespace holdfast::detail

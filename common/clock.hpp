#pragma once

#include <ctime>

#include <chrono>

namespace holdfast::detail {

/// CLOCK_BOOTTIME: monotonic, and counts the time in which the machine was suspended. All deadlines are on it.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
  }
};

using TimePoint = BootClock::time_point;
using Duration = BootClock::duration;

inline constexpr TimePoint kNever = TimePoint::max();

/// `from + by`, without running past kNever.
constexpr TimePoint later(TimePoint from, Duration by) { return by > kNever - from ? kNever : from + by; }

}  // namespace holdfast::detail

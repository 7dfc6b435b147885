#pragma once

#include <chrono>

namespace holdfast::detail {

/// Any duration in nanoseconds; what does not fit becomes the longest (or shortest) that does, some 292 years.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds saturated(std::chrono::duration<Rep, Period> duration) {
  using std::chrono::nanoseconds;
  auto const exact = std::chrono::duration<long double, std::nano>(duration).count();
  if (exact >= static_cast<long double>(nanoseconds::max().count())) return nanoseconds::max();
  if (exact <= static_cast<long double>(nanoseconds::min().count())) return nanoseconds::min();
  return std::chrono::duration_cast<nanoseconds>(duration);
}

}  // namespace holdfast::detail

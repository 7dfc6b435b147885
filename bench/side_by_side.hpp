#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace holdfast::bench {

inline double microseconds(std::function<void()> const& what) {
  auto const begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double>& all) {
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// Does the two in turns, one by one, so that whatever else the machine does hits both; prints a row of a table with
/// the two medians and their ratio, and returns that.
inline double side_by_side(char const* title, int times, std::function<void()> const& plain,
                           std::function<void()> const& ours) {
  std::vector<double> without, with;
  for (int i = 0; i < times + times / 10; ++i) {
    double const first = microseconds(plain), second = microseconds(ours);
    if (i < times / 10) continue;  // warming up
    without.push_back(first);
    with.push_back(second);
  }
  double const a = median(without), b = median(with);
  std::printf("| %s | %.0f | %.0f | %.2f |\n", title, a, b, b / a);
  std::fflush(stdout);
  return b / a;
}

}  // namespace holdfast::bench

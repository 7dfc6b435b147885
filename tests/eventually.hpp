#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace holdfast::test {

using namespace std::chrono_literals;

/// Waits for a condition, not for a time; false if it does not come.
inline bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds patience = 20s) {
  auto const end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace holdfast::test

#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "common/backend.hpp"
#include "local/file_counter.hpp"

namespace holdfast::detail::file {

/// Runs operations under the directory's mutex, in order.
///
/// The mutex is only ever tried, never waited for in the kernel: a process that is stopped while it has it must not
/// make our own deadlines hang. Who does not get it tries again soon, by timer.
///
/// Thread safety: distinct objects safe; shared objects unsafe: only inside the monitor.
class MutexQueue {
 public:
  explicit MutexQueue(Host& host) : host_(host), random_(std::random_device{}()) {}
  ~MutexQueue() { close(); }
  MutexQueue(MutexQueue const&) = delete;
  MutexQueue& operator=(MutexQueue const&) = delete;

  /// From now on operations can run; those that wait do.
  void open(Counter& counter) {
    counter_ = &counter;
    drain();
  }

  /// From now on operations wait. Those that waited already are abandoned, in order.
  void close() {
    counter_ = nullptr;
    host_.cancel(std::exchange(timer_, 0));
    for (auto& each : std::exchange(queue_, {})) each.abandon();
  }

  /// Runs `body` under the mutex, now or later. It calls `unlock()` itself, as soon as it can.
  /// `abandon` is called instead if the queue is closed before.
  template <class Body, class Abandon>
  void run(Body body, Abandon abandon) {
    if (counter_ != nullptr && queue_.empty() && lock()) return body();
    queue_.push_back({std::move(body), std::move(abandon)});
    if (counter_ != nullptr && timer_ == 0) retry();
  }

  void unlock() {
    if (counter_ != nullptr) counter_->unlock();
  }

 private:
  static constexpr int kSpins = 50;
  static constexpr Duration kFirstDelay = std::chrono::microseconds(500);
  static constexpr Duration kLastDelay = std::chrono::milliseconds(20);

  struct Operation {
    std::function<void()> body;
    std::function<void()> abandon;
  };

  bool lock();
  void retry();
  void drain();

  Host& host_;
  Counter* counter_ = nullptr;
  std::deque<Operation> queue_;
  TimerId timer_ = 0;
  Duration delay_ = kFirstDelay;
  std::minstd_rand random_;
};

}  // namespace holdfast::detail::file

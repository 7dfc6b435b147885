#include "local/file_mutex.hpp"

#include <sched.h>

#include <algorithm>

namespace holdfast::detail::file {

bool MutexQueue::lock() {
  // It is held for some ten microseconds at a time, so it is soon free, unless its owner has no processor.
  for (int i = 0; i < kSpins; ++i) {
    if (counter_->try_lock()) return true;
    ::sched_yield();
  }
  return false;
}

void MutexQueue::retry() {
  std::uniform_int_distribution<Duration::rep> jitter(delay_.count() / 2, delay_.count());
  timer_ = host_.at(host_.now() + Duration(jitter(random_)), [this] {
    timer_ = 0;
    drain();
  });
  delay_ = std::min(2 * delay_, kLastDelay);
}

void MutexQueue::drain() {
  while (counter_ != nullptr && !queue_.empty()) {
    if (!lock()) {
      if (timer_ == 0) retry();
      return;
    }
    delay_ = kFirstDelay;
    auto operation = std::move(queue_.front());
    queue_.pop_front();
    operation.body();
  }
}

}  // namespace holdfast::detail::file

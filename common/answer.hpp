#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace holdfast::detail {

/// The one place where a blocking call waits for the asynchronous path beneath it. The first answer counts.
///
/// Thread safety: distinct objects safe; shared objects safe.
template <class T>
class Answer {
 public:
  void give(T what) {
    std::lock_guard const guard(mutex_);
    if (!given_) given_.emplace(std::move(what));
    changed_.notify_one();
  }

  T wait() {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return given_.has_value(); });
    return std::move(*given_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> given_;
};

}  // namespace holdfast::detail

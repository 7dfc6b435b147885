#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "common/backend.hpp"

namespace holdfast::detail {

/// A backend's way into the monitor for threads of a service's client library, which may outlive both: whoever comes
/// after it was shut finds it so.
///
/// Thread safety: distinct objects safe; shared objects safe.
class Door {
 public:
  explicit Door(Host& host) : host_(&host) {}

  void post(std::function<void()> what) {
    std::lock_guard const guard(mutex_);
    if (host_ != nullptr) host_->post(std::move(what));
  }

  bool open() {
    std::lock_guard const guard(mutex_);
    return host_ != nullptr;
  }

  /// With the backend, at the latest.
  void shut() {
    std::lock_guard const guard(mutex_);
    host_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Host* host_;
};

}  // namespace holdfast::detail

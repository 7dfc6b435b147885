#include <holdfast/gate.hpp>
#include <map>
#include <mutex>
#include <string>

#include "common/error.hpp"
#include "common/text.hpp"

namespace holdfast {

struct MemoryFenceGate::Marks {
  std::mutex mutex;
  std::map<std::string, Fence, std::less<>> highest;
};

MemoryFenceGate::MemoryFenceGate() : marks_(std::make_unique<Marks>()) {}
MemoryFenceGate::~MemoryFenceGate() = default;

Result<void> MemoryFenceGate::claim(std::string_view resource, Fence fence) {
  std::lock_guard const guard(marks_->mutex);
  auto& highest = marks_->highest;
  auto const mark = highest.find(resource);
  if (mark == highest.end())
    highest.emplace(resource, fence);
  else if (fence < mark->second)
    return stale_fence(resource, fence, mark->second);
  else
    mark->second = fence;
  return {};
}

Result<void> MemoryFenceGate::admit(std::string_view resource, Fence fence) { return claim(resource, fence); }

Result<void> MemoryFenceGate::check(std::string_view resource, Fence fence) {
  std::lock_guard const guard(marks_->mutex);
  auto const mark = marks_->highest.find(resource);
  if (mark != marks_->highest.end() && fence < mark->second) return stale_fence(resource, fence, mark->second);
  return {};
}

error_code stale_fence(std::string_view resource, Fence offered, Fence highest) {
  return detail::fail(errc::stale_fence,
                      detail::in_quotes(resource) + " has seen " + highest.to_string() + ", this one is " +
                          offered.to_string() +
                          ": a later holder was here (or, if the lock service was switched or restored from a backup, "
                          "raise fence_epoch)");
}

error_code describe(errc condition, std::string_view text, int raw) { return detail::fail(condition, text, raw); }

}  // namespace holdfast

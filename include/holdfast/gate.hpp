#pragma once

#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <memory>
#include <string_view>

namespace holdfast {

/// The resource's side of a fence: remembers the highest one that each resource has seen, and refuses a lower one.
///
/// Every holder passes its fence through the same gate. A *writer* (the holder of an exclusive grant) calls `claim`
/// once, before it reads, and `admit` with each write. A *reader* (the holder of a shared grant) calls `check`.
///
/// Why claim: the gate must know of the new holder before that one reads. Without it, an old write still fits in
/// between:
///
///     A, fence 1: reads 10
///     B, fence 2: reads 10               A is believed dead, B has the lock
///     A, fence 1: admit, writes 11       accepted: the gate has not heard of 2
///     B, fence 2: admit, writes 12       computed from 10: A's update, accepted and confirmed, is gone
///
/// With `claim(2)` before B's read, A's write is refused.
///
/// A gate is only as good as its place: `admit` and the write that follows must be one step for everybody else. Call
/// both under the resource's own mutex, or let the store do it in one statement or one transaction (postgres.hpp,
/// sqlite.hpp). A resource is named by whatever text its users agree on; the lock's name is a good one.
///
/// Errors, of all three: stale_fence if the resource has seen a higher fence, naming both; equal passes, since one
/// holder writes many times. A gate over a store has that store's errors as well.
class HOLDFAST_API FenceGate {
 public:
  virtual ~FenceGate() = default;

  /// A new writer is here: from now on lower fences are refused.
  [[nodiscard]] virtual Result<void> claim(std::string_view resource, Fence fence) = 0;

  /// A write of a writer. A fence that nobody claimed before is claimed hereby: late, but not never.
  [[nodiscard]] virtual Result<void> admit(std::string_view resource, Fence fence) = 0;

  /// A shared number: refused if a writer with a higher fence has been here since. It never raises the mark, because
  /// readers and the permits of a semaphore stand side by side, and none of them may shut the others out.
  [[nodiscard]] virtual Result<void> check(std::string_view resource, Fence fence) = 0;
};

/// A gate in memory, for a resource that lives in one process: a server in front of a device, a test. It forgets with
/// the process, and keeps one mark for every resource it was ever asked about.
///
/// Thread safety: distinct objects safe; shared objects safe. No completions.
class HOLDFAST_API MemoryFenceGate final : public FenceGate {
 public:
  MemoryFenceGate();
  ~MemoryFenceGate() override;

  [[nodiscard]] Result<void> claim(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> admit(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> check(std::string_view resource, Fence fence) override;

 private:
  struct Marks;
  std::unique_ptr<Marks> marks_;
};

/// The error with which gates refuse, for gates of your own: stale_fence, naming the resource, the fence that was
/// offered and the highest that the resource has seen.
[[nodiscard]] HOLDFAST_API error_code stale_fence(std::string_view resource, Fence offered, Fence highest);

/// Any other error of a gate of your own: it compares equal to `condition`, its `message()` is "<condition>: <text>",
/// its `value()` the raw code of the store (the condition's own number if there is none).
///
/// An error_code carries no string of its own, so texts are kept for ever; there is room for a thousand with each
/// condition, also stale_fence, and from then on a new one is dropped.
[[nodiscard]] HOLDFAST_API error_code describe(errc condition, std::string_view text, int raw = 0);

}  // namespace holdfast

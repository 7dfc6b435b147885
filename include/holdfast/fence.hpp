#pragma once

#include <compare>
#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

namespace holdfast {

/// A number that only grows: every exclusive grant of one lock has a higher fence than the grant before it.
///
/// Hand it to the resource with each write; a resource that refuses a fence lower than the highest it has seen is safe
/// from a holder that was paused, cut off or believed dead, whatever the clocks did meanwhile.
///
/// A fence is ordered by epoch first, then by token. The token is what the service gave (etcd: create revision,
/// ZooKeeper: czxid, file: ticket). The epoch comes from the configuration (`fence_epoch`, 0 by default): raise it when
/// you switch to another service or restore one from a backup, since their tokens do not compare.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Fence {
 public:
  constexpr Fence() = default;
  constexpr Fence(std::uint64_t epoch, std::uint64_t token) : epoch_(epoch), token_(token) {}

  [[nodiscard]] constexpr std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] constexpr std::uint64_t token() const noexcept { return token_; }

  /// "epoch.token" in decimal, for instance "0.4711".
  [[nodiscard]] HOLDFAST_API std::string to_string() const;

  /// The reverse of to_string(). Errors: invalid_argument, naming the text.
  [[nodiscard]] HOLDFAST_API static Result<Fence> parse(std::string_view text);

  friend constexpr auto operator<=>(Fence const&, Fence const&) = default;

 private:
  std::uint64_t epoch_ = 0;
  std::uint64_t token_ = 0;
};

}  // namespace holdfast

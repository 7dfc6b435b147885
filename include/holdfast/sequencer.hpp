#pragma once

#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

/// A printable proof of one hold, to be sent along with a request. Whoever receives it asks `Client::check` whether
/// that hold still stands.
///
/// It names the place (service and root), the lock, the entry that stands for the hold and its fence. A checksum tells
/// a truncated or mistyped text from a real one; it is not a signature: who can read a lock's line can also make its
/// sequencer.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Sequencer {
 public:
  Sequencer() = default;
  Sequencer(std::string place, std::string lock, std::string entry, Fence fence)
      : place_(std::move(place)), lock_(std::move(lock)), entry_(std::move(entry)), fence_(fence) {}

  [[nodiscard]] std::string const& place() const noexcept { return place_; }  ///< which service and root
  [[nodiscard]] std::string const& lock() const noexcept { return lock_; }    ///< the lock's name
  [[nodiscard]] std::string const& entry() const noexcept { return entry_; }  ///< the entry in its line
  [[nodiscard]] Fence fence() const noexcept { return fence_; }

  /// One printable word without spaces: "hf1:place:lock:entry:epoch.token:checksum", each part percent-encoded.
  [[nodiscard]] HOLDFAST_API std::string encode() const;

  /// The reverse of encode(). Errors: invalid_argument, saying which part is wrong.
  [[nodiscard]] HOLDFAST_API static Result<Sequencer> parse(std::string_view text);

  friend bool operator==(Sequencer const&, Sequencer const&) = default;

 private:
  std::string place_;
  std::string lock_;
  std::string entry_;
  Fence fence_;
};

}  // namespace holdfast

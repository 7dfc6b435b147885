#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The one rule of every recipe: let `ahead` be the nearest `permits` blockers in front of me; I am granted iff there
// are fewer than `permits` of them; otherwise I wait until any of them is gone, and look again. Entries ahead only ever
// leave, so a grant stays right, and a departure wakes at most `permits` waiters. Recipes are rows of data on this
// rule.

namespace holdfast::detail {

/// What an entry in a line stands for; it is part of the entry's name, so that a listing is enough to apply the rule.
enum class Kind : std::uint8_t { lock, read, write, permit };

constexpr std::uint8_t bit(Kind kind) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind)); }

/// Who blocks me, and how many of them may be ahead of me, less one.
struct Rule {
  std::uint8_t blockers = 0xff;  ///< set of bit(Kind)
  std::uint32_t permits = 1;

  constexpr bool blocked_by(Kind kind) const { return (blockers & bit(kind)) != 0; }
  /// Blocked by everyone, one at a time: when such an entry is granted, nobody at all is ahead of it.
  constexpr bool exclusive() const { return blockers == 0xff && permits == 1; }
  friend bool operator==(Rule const&, Rule const&) = default;
};

inline constexpr Rule kExclusive{0xff, 1};
inline constexpr Rule kReader{bit(Kind::write), 1};
constexpr Rule semaphore(std::uint32_t permits) { return {0xff, permits}; }

/// An entry's identity: its key *and* its number (the fence's token), since a key may be used again.
struct EntryRef {
  std::string key;
  std::uint64_t number = 0;
  friend auto operator<=>(EntryRef const&, EntryRef const&) = default;
};

/// Who is ahead of an entry: the nearest `permits` blockers, nearest first, and whether there are more beyond them.
struct Ahead {
  std::vector<EntryRef> nearest;
  bool more = false;

  bool grants(Rule rule) const { return nearest.size() < rule.permits; }
};

}  // namespace holdfast::detail

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/backend.hpp"

namespace holdfast::detail::file {

/// One await_gone.
struct Wait {
  std::string line;
  EntryRef entry;
  std::uint64_t session = 0;
  std::function<void(bool)> gone;
  bool fired = false;    ///< its callback is on its way
  bool watched = false;  ///< it has a share in the watch on that session
};

/// Who waits for which entry to go.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Waits {
 public:
  WatchId add(Wait wait) {
    auto const id = ++last_;
    by_ticket_.emplace(wait.entry.number, id);
    waits_.emplace(id, std::move(wait));
    return id;
  }

  Wait* find(WatchId id) {
    auto const at = waits_.find(id);
    return at == waits_.end() ? nullptr : &at->second;
  }

  /// Forgets a wait and gives it back; one without a callback if it is unknown.
  Wait take(WatchId id) {
    auto const at = waits_.find(id);
    if (at == waits_.end()) return {};
    auto wait = std::move(at->second);
    waits_.erase(at);
    auto const [begin, end] = by_ticket_.equal_range(wait.entry.number);
    for (auto it = begin; it != end; ++it) {
      if (it->second != id) continue;
      by_ticket_.erase(it);
      break;
    }
    return wait;
  }

  std::vector<WatchId> on_ticket(std::uint64_t ticket) const {
    std::vector<WatchId> ids;
    auto const [begin, end] = by_ticket_.equal_range(ticket);
    for (auto it = begin; it != end; ++it) ids.push_back(it->second);
    return ids;
  }

  template <class What>
  void each(What const& what) const {
    for (auto const& [id, wait] : waits_) what(id, wait);
  }

  template <class Predicate>
  std::vector<WatchId> where(Predicate const& predicate) const {
    std::vector<WatchId> ids;
    for (auto const& [id, wait] : waits_)
      if (predicate(wait)) ids.push_back(id);
    return ids;
  }

  void clear() {
    waits_.clear();
    by_ticket_.clear();
  }

 private:
  WatchId last_ = 0;
  std::map<WatchId, Wait> waits_;  ///< in the order of the waits, which is the order to wake them in
  std::unordered_multimap<std::uint64_t, WatchId> by_ticket_;
};

}  // namespace holdfast::detail::file

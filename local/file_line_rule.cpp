#include <algorithm>
#include <array>
#include <chrono>

#include "common/error.hpp"
#include "local/file_line.hpp"

// The rule on a line's records: who is ahead, whom a departure wakes, who is there.

namespace holdfast::detail::file {

using boost::system::in_place_error;

namespace {

constexpr std::uint64_t kCheapScan = 8 * kRecordSize;
constexpr int kFarEnough = 64;

/// How many live records of each kind were passed.
class Passed {
 public:
  void add(Kind kind) { ++counts_[static_cast<std::size_t>(kind)]; }
  std::uint64_t among(std::uint8_t kinds) const {
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < counts_.size(); ++k)
      if ((kinds & (1U << k)) != 0) sum += counts_[k];
    return sum;
  }

 private:
  std::array<std::uint64_t, 4> counts_{};
};

}  // namespace

Result<Ahead> Line::ahead(std::uint64_t before, Rule rule, Liveness& sessions) {
  Ahead result;
  bool const skips = !rule.blocked_by(Kind::lock) && !rule.blocked_by(Kind::read) && !rule.blocked_by(Kind::permit);
  bool saw_all = before == end_;
  bool saw_live = false;
  int beyond = 0;
  std::uint64_t offset = before;
  while (offset > header_.head && !result.more) {
    auto const found = at(offset - kRecordSize, Direction::backward);
    if (!found) return found.error();
    Record& record = **found;
    offset -= kRecordSize;
    bool const complete = result.nearest.size() == rule.permits;
    if (complete && ++beyond > kFarEnough) result.more = true;  // perhaps: see there when it matters
    if (record.state == Record::kLive && rule.blocked_by(record.kind)) {
      if (complete) {
        result.more = true;
        break;
      }
      auto const alive = sessions.alive(record.session);
      if (!alive) return alive.error();
      if (*alive) {
        result.nearest.push_back({to_key({offset, record.session}), record.ticket});
      } else if (auto marked = mark_gone(record, offset); !marked) {
        return marked.error();
      }
    }
    saw_live = saw_live || record.state == Record::kLive;
    // Only writers count for a reader, and each record knows the writer before it. A gone one still knows; a hole does
    // not, but there are holes only before the head.
    if (skips && record.last_writer + kRecordSize < offset) {
      offset = std::max(record.last_writer + kRecordSize, header_.head);
      saw_all = false;
    }
  }
  all_gone_ = saw_all && !saw_live && offset <= header_.head;
  return result;
}

/// Whether everything in front is gone; not looked for far unless it is likely. (The head stays behind when the first
/// in line dies instead of leaving.)
Result<bool> Line::nobody_before(std::uint64_t offset, bool likely, Liveness& sessions) {
  if (!likely && offset - header_.head > kCheapScan) return false;
  auto const found = last_live_before(offset, sessions);
  if (!found) return {in_place_error, found.error()};
  return *found == 0;
}

// Whom does a departure wake? Exactly those who have it among the nearest `permits` blockers in front of them: a waiter
// with fewer than `permits` live records of its blockers' kinds between us and itself.
//
// Counting by record, without asking whether the sessions live, forgets nobody: when the waiter last looked, it passed
// over everything between us and itself and marked the dead. Whatever died since, it learns of from the kernel, and
// looks again. Since records in between only ever go, one that waited for us then is still counted as waiting for us.
// (Comparing tickets noted by the waiters instead would be wrong: a note is out of date from the departure of one it
// names until that waiter looks again, and the waiters behind it may look first.)
//
// When to stop: whoever waits for an entry of our kind also waits for every kind in narrowest[our kind]. Once
// max_permits of those were passed, nobody further behind can be waiting for us.
Result<Departure> Line::remove(EntryRef const& entry, bool was_first, Liveness& sessions) {
  Departure result;
  auto const mine = find(entry);
  if (!mine) return mine.error();
  if (*mine == nullptr) return result;
  Kind const kind = (*mine)->kind;
  std::uint64_t const offset = from_key(entry.key)->offset;

  std::uint64_t next = 0;
  Passed passed;
  for (std::uint64_t o = offset + kRecordSize; o < end_; o += kRecordSize) {
    auto const found = at(o, Direction::forward);
    if (!found) return found.error();
    Record const& record = **found;
    if (record.state != Record::kLive) continue;
    if (next == 0) next = o;
    bool const waits = record.waiting != 0 && (record.blockers & bit(kind)) != 0;
    if (waits && passed.among(record.blockers) < record.permits) result.wake.push_back(record.session);
    passed.add(record.kind);
    if (passed.among(header_.narrowest[static_cast<std::size_t>(kind)]) >= header_.max_permits) break;
  }
  auto& wake = result.wake;
  std::sort(wake.begin(), wake.end());
  wake.erase(std::unique(wake.begin(), wake.end()), wake.end());

  Result<void> done;
  if (next == 0) {
    done = cut_tail(offset, sessions);
  } else if (auto const first = nobody_before(offset, was_first, sessions); !first) {
    return first.error();
  } else if (*first) {
    result.nobody_ahead = true;
    header_.head = next;  // one write removes us and moves the head
    punch();
    done = write_header();
  } else {
    auto const again = at(offset, Direction::forward);
    if (!again) return again.error();
    done = mark_gone(**again, offset);
  }
  if (!done) return done.error();
  return result;
}

Result<std::vector<EntryInfo>> Line::list(Liveness& sessions) {
  std::vector<EntryInfo> entries;
  for (std::uint64_t offset = header_.head; offset < end_; offset += kRecordSize) {
    auto const found = at(offset, Direction::forward);
    if (!found) return found.error();
    Record const& record = **found;
    if (record.state != Record::kLive) continue;
    auto const alive = sessions.alive(record.session);
    if (!alive) return alive.error();
    if (!*alive) continue;
    auto const since = std::chrono::system_clock::time_point(std::chrono::microseconds(record.since));
    entries.push_back({{to_key({offset, record.session}), record.ticket},
                       record.kind,
                       std::string(record.label, record.label_size),
                       since});
  }
  if (entries.empty()) {
    if (auto removed = unlink(); !removed) return removed.error();
  }
  return entries;
}

Result<bool> Line::occupied(Liveness& sessions) {
  for (std::uint64_t offset = header_.head; offset < end_; offset += kRecordSize) {
    auto const found = at(offset, Direction::forward);
    if (!found) return {in_place_error, found.error()};
    if ((*found)->state != Record::kLive) continue;
    auto const alive = sessions.alive((*found)->session);
    if (!alive || *alive) return alive;
  }
  return false;
}

Result<bool> Line::bury(Liveness& sessions) {
  bool lives = false;
  for (std::uint64_t offset = header_.head; offset < end_; offset += kRecordSize) {
    auto const found = at(offset, Direction::forward);
    if (!found) return {in_place_error, found.error()};
    if ((*found)->state != Record::kLive) continue;
    auto const alive = sessions.alive((*found)->session);
    if (!alive) return alive;
    lives = lives || *alive;
    if (*alive) continue;
    if (auto marked = mark_gone(**found, offset); !marked) return {in_place_error, marked.error()};
  }
  return lives;
}

}  // namespace holdfast::detail::file

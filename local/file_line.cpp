#include "local/file_line.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "common/error.hpp"

namespace holdfast::detail::file {

using boost::system::in_place_error;

namespace {

constexpr std::uint64_t kMagic = 0x31'65'6e'69'6c'2d'66'68;  // "hf-line1"
constexpr std::size_t kFirstChunk = 4096;                    // an ordinary line is read in one go
constexpr std::size_t kLastChunk = 65536;
constexpr std::uint64_t kPunchUnit = 65536;
constexpr std::uint64_t kCheapScan = 8 * kRecordSize;
constexpr std::size_t kHeaderUsed = offsetof(LineHeader, padding);

LineHeader new_header() {
  LineHeader header{};
  header.magic = kMagic;
  header.head = kRecordSize;
  header.punched = kFirstChunk;
  header.max_permits = 1;
  std::fill(std::begin(header.narrowest), std::end(header.narrowest), std::uint8_t{0xff});
  return header;
}

bool plausible(LineHeader const& header) {
  return header.magic == kMagic && header.head >= kRecordSize && header.head % kRecordSize == 0 &&
         header.max_permits >= 1;
}

bool plausible(Record const& record) {
  if (record.state == Record::kGone) return true;
  return record.state == Record::kLive && record.kind <= Kind::permit && record.label_size <= kLabelLimit &&
         record.ticket != 0 && record.session != 0;
}

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

std::string to_key(Place place) {
  char text[48];
  auto const end = std::end(text);
  auto at = std::to_chars(std::begin(text), end, place.offset, 16).ptr;
  *at++ = '-';
  at = std::to_chars(at, end, place.session).ptr;
  return {std::begin(text), at};
}

std::optional<Place> from_key(std::string const& key) {
  Place place;
  auto const end = key.data() + key.size();
  auto const offset = std::from_chars(key.data(), end, place.offset, 16);
  if (offset.ec != std::errc{} || offset.ptr == end || *offset.ptr != '-') return std::nullopt;
  auto const session = std::from_chars(offset.ptr + 1, end, place.session);
  if (session.ec != std::errc{} || session.ptr != end) return std::nullopt;
  if (place.offset < kRecordSize || place.offset % kRecordSize != 0) return std::nullopt;
  return place;
}

Line::Line() : buffer_(std::make_unique<char[]>(kLastChunk)) {}

Result<bool> Line::open(int lines, std::string const& path, std::string const& name, Mode mode, mode_t rights) {
  lines_ = lines;
  path_ = &path;
  name_ = name;
  int const flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (mode == Mode::create ? O_CREAT : 0);
  fd_ = Fd();
  fd_ = Fd(::openat(lines, name.c_str(), flags, rights));
  if (!fd_ && errno == ENOENT) return false;
  if (!fd_) return {in_place_error, fail_errno(errno, where())};
  if (auto loaded = load(); !loaded) return {in_place_error, loaded.error()};
  if (end_ == 0 && (rights & 077U) != 0) ::fchmod(fd_.get(), rights);  // a shared directory: umask must not decide
  return true;
}

Result<void> Line::load() {
  auto const n = read_at(fd_.get(), buffer_.get(), kFirstChunk, 0);
  if (n < 0) return fail_errno(errno, where());
  auto size = static_cast<std::uint64_t>(n);
  begin_ = 0;
  limit_ = size - size % kRecordSize;
  chunk_ = kFirstChunk;
  all_gone_ = false;
  if (size == kFirstChunk) {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) return fail_errno(errno, where());
    size = std::max(size, static_cast<std::uint64_t>(status.st_size));
  }
  end_ = size - size % kRecordSize;  // somebody may have died in the middle of appending
  if (end_ == 0) {
    header_ = new_header();
    return {};
  }
  std::memcpy(&header_, buffer_.get(), sizeof header_);
  if (!plausible(header_)) return fail(errc::corrupt, where() + " has a broken header");
  return {};
}

Result<Record*> Line::at(std::uint64_t offset, Direction direction) {
  if (offset < begin_ || offset + kRecordSize > limit_) {
    std::uint64_t const after = offset + kRecordSize;
    begin_ = direction == Direction::forward ? offset : after - std::min<std::uint64_t>(after, chunk_);
    auto const n = read_at(fd_.get(), buffer_.get(), chunk_, begin_);
    if (n < 0) {
      limit_ = begin_;
      return fail_errno(errno, where());
    }
    limit_ = begin_ + static_cast<std::uint64_t>(n);
    chunk_ = std::min(2 * chunk_, kLastChunk);
    if (after > limit_) return fail(errc::corrupt, where() + " was cut short");
  }
  auto* record = reinterpret_cast<Record*>(buffer_.get() + (offset - begin_));
  if (!plausible(*record)) return fail(errc::corrupt, where() + " has a broken record at " + std::to_string(offset));
  return record;
}

Result<Record*> Line::find(EntryRef const& entry) {
  auto const place = from_key(entry.key);
  if (!place || place->offset < header_.head || place->offset + kRecordSize > end_) return nullptr;
  auto record = at(place->offset, Direction::forward);
  if (!record) return record.error();
  bool const same =
      (*record)->state == Record::kLive && (*record)->ticket == entry.number && (*record)->session == place->session;
  return same ? *record : nullptr;
}

Result<bool> Line::has(EntryRef const& entry) {
  auto const record = find(entry);
  if (!record) return {in_place_error, record.error()};
  return *record != nullptr;
}

Result<Ahead> Line::ahead(std::uint64_t before, Rule rule, Liveness& sessions) {
  Ahead result;
  bool const skips = !rule.blocked_by(Kind::lock) && !rule.blocked_by(Kind::read) && !rule.blocked_by(Kind::permit);
  bool saw_all = before == end_;
  bool saw_live = false;
  std::uint64_t offset = before;
  while (offset > header_.head && !result.more) {
    auto const found = at(offset - kRecordSize, Direction::backward);
    if (!found) return found.error();
    Record& record = **found;
    offset -= kRecordSize;
    if (record.state == Record::kLive && rule.blocked_by(record.kind)) {
      if (result.nearest.size() == rule.permits) {
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

Result<void> Line::mark_gone(Record& record, std::uint64_t offset) {
  record.state = Record::kGone;
  if (int const error = write_at(fd_.get(), &record.state, sizeof record.state, offset); error != 0)
    return fail_errno(error, where());
  return {};
}

Result<void> Line::note_granted(EntryRef const& entry) {
  auto const record = find(entry);
  if (!record) return record.error();
  if (*record == nullptr || (*record)->waiting == 0) return {};
  (*record)->waiting = 0;
  auto const offset = from_key(entry.key)->offset + offsetof(Record, waiting);
  if (int const error = write_at(fd_.get(), &(*record)->waiting, 1, offset); error != 0)
    return fail_errno(error, where());
  return {};
}

Result<void> Line::write_header() {
  if (int const error = write_at(fd_.get(), &header_, kHeaderUsed, 0); error != 0) return fail_errno(error, where());
  return {};
}

/// Makes the header cover a rule, see remove().
Result<void> Line::widen(Rule rule) {
  auto wider = header_;
  wider.max_permits = std::max(wider.max_permits, rule.permits);
  for (std::size_t kind = 0; kind < std::size(wider.narrowest); ++kind)
    if ((rule.blockers & (1U << kind)) != 0) wider.narrowest[kind] &= rule.blockers;
  bool const same = std::memcmp(&wider, &header_, kHeaderUsed) == 0;
  header_ = wider;
  if (same || end_ == 0) return {};  // a new file gets its header together with the first record
  return write_header();
}

Result<void> Line::start_over() {
  if (::ftruncate(fd_.get(), 0) != 0) return fail_errno(errno, where());
  header_ = new_header();
  end_ = 0;
  return {};
}

Result<EntryRef> Line::append(Record record) {
  if (end_ != 0 && all_gone_) {
    if (auto emptied = start_over(); !emptied) return emptied.error();
  }
  record.last_writer = 0;
  if (end_ > kRecordSize) {
    auto const last = at(end_ - kRecordSize, Direction::backward);
    if (!last) return last.error();
    record.last_writer = (*last)->kind == Kind::write ? end_ - kRecordSize : (*last)->last_writer;
  }
  if (auto widened = widen({record.blockers, record.permits}); !widened) return widened.error();

  bool const fresh = end_ == 0;
  char both[2 * kRecordSize];
  std::memcpy(both, &header_, kRecordSize);
  std::memcpy(both + kRecordSize, &record, kRecordSize);
  std::uint64_t const offset = fresh ? kRecordSize : end_;
  int const error =
      fresh ? write_at(fd_.get(), both, sizeof both, 0) : write_at(fd_.get(), both + kRecordSize, kRecordSize, offset);
  if (error != 0) {
    if (fresh)
      (void)unlink();
    else
      (void)!::ftruncate(fd_.get(), static_cast<off_t>(end_));
    return fail_errno(error, where());
  }
  end_ = offset + kRecordSize;
  return EntryRef{to_key({offset, record.session}), record.ticket};
}

/// The offset of the last live record in front of `offset`; 0 if there is none.
Result<std::uint64_t> Line::last_live_before(std::uint64_t offset) {
  while (offset > header_.head) {
    offset -= kRecordSize;
    auto const record = at(offset, Direction::backward);
    if (!record) return record.error();
    if ((*record)->state == Record::kLive) return offset;
  }
  return std::uint64_t{0};
}

/// Whether everything in front is gone; not looked for far unless it is likely. (The head stays behind when the first
/// in line dies instead of leaving.)
Result<bool> Line::nobody_before(std::uint64_t offset, bool likely) {
  if (!likely && offset - header_.head > kCheapScan) return false;
  auto const found = last_live_before(offset);
  if (!found) return {in_place_error, found.error()};
  return *found == 0;
}

/// The last in line goes: so do the gone ones in front of it, and the file if nothing is left.
Result<void> Line::cut_tail(std::uint64_t offset) {
  auto const last = last_live_before(offset);
  if (!last) return last.error();
  if (*last == 0) return unlink();
  end_ = *last + kRecordSize;
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) return fail_errno(errno, where());
  return {};
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
Result<Departure> Line::remove(EntryRef const& entry, bool was_first) {
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
    done = cut_tail(offset);
  } else if (auto const first = nobody_before(offset, was_first); !first) {
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

/// A line that is never empty would grow for ever: what is before the head goes back to the disk, now and then. A file
/// system that cannot do it keeps the blocks until the line is empty.
void Line::punch() {
  auto const until = header_.head - header_.head % kPunchUnit;
  if (until <= header_.punched) return;
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(header_.punched),
                    static_cast<off_t>(until - header_.punched));
  header_.punched = until;
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

Result<void> Line::unlink() {
  if (::unlinkat(lines_, name_.c_str(), 0) != 0 && errno != ENOENT) return fail_errno(errno, where());
  return {};
}

}  // namespace holdfast::detail::file

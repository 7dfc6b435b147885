#include "local/file_line.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/error.hpp"

namespace holdfast::detail::file {

using boost::system::in_place_error;

namespace {

constexpr std::uint64_t kLineMagic = 0x31'65'6e'69'6c'2d'66'68;  // "hf-line1"
constexpr std::size_t kFirstChunk = 4096;                        // an ordinary line is read in one go
constexpr std::size_t kLastChunk = 65536;
constexpr std::uint64_t kPunchUnit = 65536;
constexpr std::size_t kHeaderUsed = offsetof(LineHeader, padding);

LineHeader new_header() {
  LineHeader header{};
  header.magic = kLineMagic;
  header.head = kRecordSize;
  header.punched = kFirstChunk;
  header.max_permits = 1;
  std::fill(std::begin(header.narrowest), std::end(header.narrowest), std::uint8_t{0xff});
  return header;
}

bool plausible(LineHeader const& header) {
  return header.magic == kLineMagic && header.head >= kRecordSize && header.head % kRecordSize == 0 &&
         header.max_permits >= 1;
}

bool plausible(Record const& record) {
  if (record.state == Record::kGone) return true;
  return record.state == Record::kLive && record.kind <= Kind::permit && record.label_size <= kLabelLimit &&
         record.ticket != 0 && record.session != 0;
}

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

Result<bool> Line::open(int lines, std::string const& path, std::string const& name, Mode mode, Rights rights) {
  lines_ = lines;
  path_ = &path;
  name_ = name;
  int const flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (mode == Mode::create ? O_CREAT : 0);
  fd_ = Fd();
  fd_ = Fd(::openat(lines, name.c_str(), flags, rights.mode));
  if (!fd_ && errno == EACCES && mode == Mode::create && unlink_if_empty())
    fd_ = Fd(::openat(lines, name.c_str(), flags, rights.mode));
  if (!fd_ && errno == ENOENT) return false;
  if (!fd_) return {in_place_error, fail_errno(errno, where())};
  if (auto loaded = load(); !loaded) return {in_place_error, loaded.error()};
  if (end_ == 0 && mode == Mode::create) rights.give(fd_.get());
  return true;
}

Result<void> Line::load() {
  // One page is read as a whole: less than that is the end of the file, and need not be asked for again.
  auto const n = ::pread(fd_.get(), buffer_.get(), kFirstChunk, 0);
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
  std::uint64_t const after = offset + kRecordSize;
  if (offset < begin_ || after > limit_ || after < offset) {
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
  if (!place || place->offset < header_.head || place->offset >= end_) return nullptr;
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
  alignas(64) char whole[64];  // within one page, as in append()
  static_assert(kHeaderUsed <= sizeof whole);
  std::memcpy(whole, &header_, kHeaderUsed);
  if (int const error = write_at(fd_.get(), whole, kHeaderUsed, 0); error != 0) return fail_errno(error, where());
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
  // Within one page, as its place in the file: a process that is killed has written all of it or nothing.
  alignas(2 * kRecordSize) char both[2 * kRecordSize];
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

/// The offset of the last record in front of `offset` whose owner lives; 0 if there is none.
Result<std::uint64_t> Line::last_live_before(std::uint64_t offset, Liveness& sessions) {
  while (offset > header_.head) {
    offset -= kRecordSize;
    auto const record = at(offset, Direction::backward);
    if (!record) return record.error();
    if ((*record)->state != Record::kLive) continue;
    auto const alive = sessions.alive((*record)->session);
    if (!alive) return alive.error();
    if (*alive) return offset;
  }
  return std::uint64_t{0};
}

/// The last in line goes: so do the gone ones in front of it, and the file if nothing is left.
Result<void> Line::cut_tail(std::uint64_t offset, Liveness& sessions) {
  auto const last = last_live_before(offset, sessions);
  if (!last) return last.error();
  if (*last == 0) return unlink();
  end_ = *last + kRecordSize;
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) return fail_errno(errno, where());
  return {};
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

bool Line::unlink_if_empty() {
  int const before = errno;
  struct stat status {};
  bool const empty = ::fstatat(lines_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
                     status.st_size == 0;
  bool const removed = empty && ::unlinkat(lines_, name_.c_str(), 0) == 0;
  errno = before;
  return removed;
}

Result<void> Line::unlink() {
  if (::unlinkat(lines_, name_.c_str(), 0) != 0 && errno != ENOENT) return fail_errno(errno, where());
  return {};
}

}  // namespace holdfast::detail::file

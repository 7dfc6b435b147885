#include "local/file_counter.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>

#include "common/error.hpp"

namespace holdfast::detail::file {

namespace {

constexpr char kMagic[8] = {'h', 'o', 'l', 'd', 'f', 'a', 's', 't'};
constexpr std::uint32_t kVersion = 1;
constexpr char kName[] = "counter";
constexpr char kUnfinished[] = "counter.";
constexpr char kBootFile[] = "/proc/sys/kernel/random/boot_id";

std::uint32_t checksum(CounterRecord const& record) {
  boost::crc_32_type crc;
  crc.process_bytes(&record, offsetof(CounterRecord, crc));
  return crc.checksum();
}

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

void set_boot(CounterRecord& record, std::string_view boot) {
  std::memset(record.boot, 0, sizeof record.boot);
  std::memcpy(record.boot, boot.data(), std::min(boot.size(), sizeof record.boot - 1));
}

/// The first record of a directory. It starts at the wall clock in microseconds, faster than tickets are ever taken, so
/// that a directory that was removed and made again does not go back.
CounterRecord first_record(std::string_view boot) {
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  CounterRecord record{};
  std::memcpy(record.magic, kMagic, sizeof kMagic);
  record.version = kVersion;
  record.directory = random_number();
  set_boot(record, boot);
  record.next = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  record.reserved = record.next + Counter::kBlock;
  record.crc = checksum(record);
  return record;
}

/// Makes the counter appear complete and on disk, or not at all. Somebody else being first is fine.
Result<void> create(int dir, std::string const& path, std::string_view boot, Rights rights) {
  char temporary[48];
  std::snprintf(temporary, sizeof temporary, "%s%016llx.new", kUnfinished,
                static_cast<unsigned long long>(random_number()));
  Fd fd(::openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, rights.mode));
  if (!fd) return fail_errno(errno, path);
  auto const record = first_record(boot);
  int error = write_at(fd.get(), &record, sizeof record, 0);
  if (error == 0 && !rights.give(fd.get())) error = errno;
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  // ENOENT: somebody was first, and swept ours away as a dead one's.
  if (error == 0 && ::linkat(dir, temporary, dir, kName, 0) != 0 && errno != EEXIST && errno != ENOENT) error = errno;
  ::unlinkat(dir, temporary, 0);
  if (error == 0 && ::fsync(dir) != 0) error = errno;
  if (error == EPERM || error == EOPNOTSUPP)  // on a file of our own: not about rights
    return fail(errc::not_supported, path + ": the file system has no hard links", error);
  if (error != 0) return fail_errno(error, path);
  return {};
}

bool exists(int dir, char const* name) {
  struct stat status {};
  return ::fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

KeptFd open_existing(int dir) {
  return KeptFd::open([dir] { return ::openat(dir, kName, O_RDWR | O_CLOEXEC | O_NOFOLLOW); });
}

}  // namespace

bool is_unfinished_counter(std::string_view name) { return name.starts_with(kUnfinished) && name.ends_with(".new"); }

Result<std::string> boot_id() {
  Fd const fd(::open(kBootFile, O_RDONLY | O_CLOEXEC));
  char text[37] = {};
  if (!fd || ::read(fd.get(), text, 36) != 36) return fail_errno(errno, kBootFile);
  return std::string(text, 36);
}

Result<Counter> Counter::open(int dir, std::string const& path, std::string_view boot, Rights rights) {
  auto const name = path + "/" + kName;
  auto fd = open_existing(dir);
  if (!fd && errno == ENOENT) {
    // The counter is the first thing made in a directory, so where there is more, it was there. Asked in this order,
    // another client that is just making all of it cannot deceive us.
    bool const used = exists(dir, "lines") || exists(dir, "sessions");
    fd = open_existing(dir);
    if (!fd && errno == ENOENT && used) return fail(errc::corrupt, name + " is missing", ENOENT);
    if (!fd && errno == ENOENT) {
      if (auto made = create(dir, name, boot, rights); !made) return made.error();
      fd = open_existing(dir);
    }
  }
  if (!fd) return fail_errno(errno, name);
  return Counter(std::move(fd), name);
}

Result<CounterRecord> Counter::load() const {
  CounterRecord record{};
  auto const n = read_at(fd_.get(), &record, sizeof record, 0);
  if (n < 0) return fail_errno(errno, path_);
  if (n != sizeof record) return fail(errc::corrupt, path_ + " is cut short");
  if (std::memcmp(record.magic, kMagic, sizeof kMagic) != 0) return fail(errc::corrupt, path_ + " is not a counter");
  if (record.crc != checksum(record)) return fail(errc::corrupt, path_ + " has a wrong checksum");
  if (record.version != kVersion) return fail(errc::corrupt, path_ + " is of another version");
  if (record.next > record.reserved) return fail(errc::corrupt, path_ + " contradicts itself");
  record.boot[sizeof record.boot - 1] = 0;
  return record;
}

Result<void> Counter::store(CounterRecord const& what, bool sync) const {
  // Within one page, as its place in the file: a process that is killed has written all of it or nothing.
  alignas(128) CounterRecord record = what;
  record.crc = checksum(record);
  int error = write_at(fd_.get(), &record, sizeof record, 0);
  if (error == 0 && sync && ::fdatasync(fd_.get()) != 0) error = errno;
  if (error != 0) return fail_errno(error, path_);
  return {};
}

Result<std::uint64_t> Counter::take() {
  auto record = load();
  if (!record) return record.error();
  if (record->next >= kLast) return fail(errc::unavailable, path_ + ": no tickets are left");
  if (record->next == record->reserved) {
    auto const before = *record;
    record->reserved += kBlock;
    if (auto stored = store(*record, true); !stored) {
      // What was not synced must not be believed by the next one who reads it from the page cache.
      (void)store(before, false);
      return stored.error();
    }
  }
  auto const ticket = record->next++;
  if (auto stored = store(*record, false); !stored) return stored.error();
  return ticket;
}

Result<void> Counter::rebooted(std::string_view boot) {
  auto record = load();
  if (!record) return record.error();
  auto const before = *record;
  record->next = record->reserved;
  record->reserved += kBlock;
  set_boot(*record, boot);
  if (auto stored = store(*record, true); !stored) {
    (void)store(before, false);
    return stored.error();
  }
  return {};
}

}  // namespace holdfast::detail::file

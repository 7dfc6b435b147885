#pragma once

#include <sys/types.h>

#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

#include "local/file_fd.hpp"

namespace holdfast::detail::file {

/// What `DIR/counter` holds. One sector, so that a power cut leaves the old or the new one.
struct CounterRecord {
  char magic[8];
  std::uint32_t version;
  std::uint32_t unused;
  std::uint64_t directory;  ///< random: tells this directory from one made later under the same path
  char boot[40];            ///< the boot that `next` was written in
  std::uint64_t next;       ///< the next ticket; good as long as the machine does not go down
  std::uint64_t reserved;   ///< on disk for sure: no ticket at or above it was ever given
  std::uint32_t unused2;
  std::uint32_t crc;  ///< CRC-32 of all before it
};
static_assert(sizeof(CounterRecord) == 88);

/// The source of tickets, and the mutex of the directory.
///
/// Tickets are strictly growing and unique over the whole directory, across crashes: `reserved` is synced ahead in
/// blocks, so that a ticket costs one plain write (the page cache outlives the process) and after a reboot the numbers
/// go on at `reserved`. A counter that cannot be trusted is an error, never a restart.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Counter {
 public:
  static constexpr std::uint64_t kBlock = 1024;                      ///< tickets per sync
  static constexpr std::uint64_t kLast = (std::uint64_t{1} << 62U);  ///< a bell needs a bit beside the ticket

  Counter() = default;

  /// Opens `counter` in the directory `dir`, whose path is for messages, making it if the directory is new.
  /// Errors: corrupt if it is missing where there is a store already; denied; unavailable.
  static Result<Counter> open(int dir, std::string const& path, std::string_view boot, Rights rights);

  bool try_lock() const { return file::try_lock(fd_.get()); }
  void unlock() const { file::unlock(fd_.get()); }
  int fd() const { return fd_.get(); }

  // The rest only while locked.

  /// Reads and checks the record. Errors: corrupt, naming the file and what is wrong.
  Result<CounterRecord> load() const;

  /// A ticket that was never given before.
  Result<std::uint64_t> take();

  /// Notes a new boot: tickets go on where none can have been given. To be called once the old files are gone.
  Result<void> rebooted(std::string_view boot);

 private:
  Counter(KeptFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Result<void> store(CounterRecord const& what, bool sync) const;

  KeptFd fd_;
  std::string path_;
};

/// Whether a file of this name was to become a counter; once there is one, nobody needs it any more.
bool is_unfinished_counter(std::string_view name);

/// The id of this boot of the machine.
Result<std::string> boot_id();

}  // namespace holdfast::detail::file

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <vector>

#include "local/file_fd.hpp"

namespace holdfast::detail::file {

/// The sessions of a directory: a FIFO each. The owner keeps it open with a lock on byte 0, and that lock *is* the
/// session: the kernel drops it however the process dies, and only then tells those who have the FIFO open for reading
/// that the last writer is gone. It is the owner's doorbell, too.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Sessions {
 public:
  Sessions() = default;
  Sessions(KeptFd dir, std::string path) : dir_(std::move(dir)), path_(std::move(path)) {}

  /// Opens a session; it lives as long as the descriptor. Under the directory's mutex, or it may be swept before it is
  /// locked. Errors: not_supported where the file system has no FIFOs; denied; unavailable.
  Result<KeptFd> create(std::uint64_t id, Rights rights) const;

  /// Whether a session of another client lives.
  Result<bool> alive(std::uint64_t id) const;

  /// Opens a peer's FIFO to learn of its end: it hangs up. Empty, with errno, if there is none.
  Fd open_for_hangup(std::uint64_t id) const;

  enum class Rung { yes, nobody_there, failed };

  /// Rings a peer's bell. A full bell rings by being full. `failed`, with errno: it could not be reached, and may live.
  Rung ring(std::uint64_t id, std::uint64_t message) const;

  /// Forgets a session that is over.
  void remove(std::uint64_t id) const;

  /// Whether the FIFO of a session is still the one behind `fd`.
  bool has(std::uint64_t id, int fd) const;

  /// Removes what those left who were killed while they made theirs. Under the mutex.
  Result<void> sweep() const;

  /// The sessions that have a FIFO, dead or alive.
  Result<std::vector<std::uint64_t>> all() const;

  int dir() const { return dir_.get(); }

 private:
  std::string where(std::uint64_t id) const { return path_ + "/" + std::to_string(id); }

  KeptFd dir_;
  std::string path_;
};

/// The names in a directory, without "." and "..".
Result<std::vector<std::string>> names_in(int dir, std::string const& path);

/// Whether `name` in the directory `dir` is the very file behind `fd`.
bool same_file(int dir, char const* name, int fd);

}  // namespace holdfast::detail::file

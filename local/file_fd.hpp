#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/fork.hpp"

// Descriptors, and the few system calls on them that the file backend makes everywhere.

namespace holdfast::detail::file {

/// Owns a descriptor for the length of one operation.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

/// Owns a descriptor that lives as long as the session. A child made by fork() gets it closed: it would otherwise keep
/// our locks, and with them the session, alive after we are killed.
class KeptFd {
 public:
  KeptFd() = default;
  explicit KeptFd(Fd fd) : fd_(fd.release()), owner_(fork_generation()) {
    if (fd_ >= 0) close_in_child(fd_);
  }
  /// What is locked through it has to be opened like this: a child forked between opening and knowing it would keep it.
  static KeptFd open(std::function<int()> const& open) {
    KeptFd kept;
    kept.fd_ = open_here_only(open);
    kept.owner_ = fork_generation();
    return kept;
  }
  KeptFd(KeptFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), owner_(other.owner_) {}
  KeptFd& operator=(KeptFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~KeptFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// False in a child made by fork(): there the number may long belong to somebody else.
  bool mine() const { return fd_ >= 0 && owner_ == fork_generation(); }

  void reset() {
    if (mine()) {
      close_here_only(fd_);
    }
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  unsigned owner_ = 0;
};

/// Whom what is made in a directory of locks is for: whoever the directory is for.
struct Rights {
  mode_t mode = 0600;
  gid_t group = static_cast<gid_t>(-1);

  bool shared() const { return (mode & 077U) != 0; }

  /// To what was just made. Neither umask nor a missing set-group-id bit must decide; who is not in the group keeps its
  /// own.
  bool give(int fd) const {
    if (!shared()) return true;
    (void)!::fchown(fd, static_cast<uid_t>(-1), group);
    return ::fchmod(fd, mode) == 0;
  }
};

/// Reads up to `size` bytes; the number read (less only at the end of the file), or -1 and errno.
inline ssize_t read_at(int fd, void* to, std::size_t size, std::uint64_t offset) {
  auto* at = static_cast<char*>(to);
  std::size_t done = 0;
  while (done < size) {
    auto const n = ::pread(fd, at + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

/// Writes all of it: 0, or the errno. The store is in regular files, where a short write means a full disk.
inline int write_at(int fd, void const* from, std::size_t size, std::uint64_t offset) {
  ssize_t n = 0;
  do {
    n = ::pwrite(fd, from, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno;
  return static_cast<std::size_t>(n) == size ? 0 : ENOSPC;
}

inline struct flock first_byte(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  return lock;
}

/// Locks byte 0 through this open file description, without waiting.
inline bool try_lock(int fd) {
  auto lock = first_byte(F_WRLCK);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

inline void unlock(int fd) {
  auto lock = first_byte(F_UNLCK);
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

/// Whether byte 0 is locked through another open file description. Empty, with errno, if the kernel does not say:
/// somebody of whom nothing is known must not be taken for dead.
inline std::optional<bool> locked_by_other(int fd) {
  auto lock = first_byte(F_WRLCK);
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

/// The process, or the system, has no descriptor left.
inline bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

}  // namespace holdfast::detail::file

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
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
  explicit KeptFd(Fd fd) : fd_(fd.release()), owner_(::getpid()) {
    if (fd_ >= 0) close_in_child(fd_);
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
  bool mine() const { return fd_ >= 0 && owner_ == ::getpid(); }

  void reset() {
    if (mine()) {
      keep_in_child(fd_);
      ::close(fd_);
    }
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  pid_t owner_ = 0;
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

/// Whether byte 0 is locked through another open file description.
inline bool locked_by_other(int fd) {
  auto lock = first_byte(F_WRLCK);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace holdfast::detail::file

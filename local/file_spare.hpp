#pragma once

#include <array>

#include "local/file_fd.hpp"

namespace holdfast::detail::file {

/// Descriptors put by for the moment in which the program has used up all others: a program at its limit must still be
/// able to give its locks back. One operation needs two.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Spare {
 public:
  /// Puts by what is missing, as copies of an open descriptor. No error if there are none to be had.
  void take(int any) {
    for (auto& fd : fds_)
      if (!fd) fd = KeptFd(Fd(::fcntl(any, F_DUPFD_CLOEXEC, 0)));
  }

  /// Lets go of them, for the next two calls of open; false if there are none.
  bool give() {
    bool any = false;
    for (auto& fd : fds_) {
      any = any || fd;
      fd.reset();
    }
    return any;
  }

 private:
  std::array<KeptFd, 2> fds_;
};

}  // namespace holdfast::detail::file

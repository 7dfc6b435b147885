#pragma once

#include <sys/types.h>

#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <vector>

#include "local/file_counter.hpp"
#include "local/file_fd.hpp"
#include "local/file_line.hpp"
#include "local/file_sessions.hpp"

namespace holdfast::detail::file {

/// A directory of locks, open:
///
///     DIR/counter          tickets, and the mutex under which all that follows is changed
///     DIR/sessions/<id>    a FIFO per client
///     DIR/lines/<name>     a file per line that has entries
///     DIR/values           the keys that commits write, if there ever was one
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Store {
 public:
  /// Opens the directory, making it if its parent exists, for nobody but this user. One that is there already is used
  /// with its own rights: what is made in it can be used by whoever can write to it.
  /// Errors: not_supported on a network file system, denied, corrupt, unavailable.
  static Result<Store> open(std::string const& path);

  /// Removes what a boot before this one left, unless somebody lives. First thing to do under the mutex. Returns the
  /// directory's id.
  Result<std::uint64_t> settle(std::string_view boot);

  /// Removes the FIFOs of dead sessions, their entries, lines in which nobody is left, and counters that were never
  /// finished. Under the mutex.
  Result<void> sweep();

  /// Whether the path still leads to what is open here.
  bool intact() const;

  Counter& counter() { return counter_; }
  Sessions const& sessions() const { return sessions_; }
  int dir() const { return dir_.get(); }
  int lines() const { return lines_.get(); }
  std::string const& path() const { return path_; }
  Rights rights() const { return {mode_ & 0666U, group_}; }

 private:
  struct Census;

  Store() = default;
  Result<Census> census() const;
  Result<KeptFd> subdirectory(char const* name) const;

  std::string path_;
  mode_t mode_ = 0700;
  gid_t group_ = static_cast<gid_t>(-1);
  KeptFd dir_;
  Counter counter_;
  KeptFd lines_;
  Sessions sessions_;
};

/// Refuses, with not_supported, a file system whose locks may not be this machine's alone. `type` is statfs's f_type.
Result<void> check_file_system(std::string const& path, std::uint32_t type);

}  // namespace holdfast::detail::file

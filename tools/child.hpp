#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

namespace holdfast::tool {

/// A command that runs as our child.
///
/// It gets a process group of its own, so that what it starts is stopped with it; but not at a terminal, where the
/// group is what job control and Ctrl-C go by. The kernel kills it if we die first: without us nobody proves the hold.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Child {
 public:
  /// Starts it, with `extra` ("KEY=value") added to our environment and `mask` as its signal mask. On failure
  /// `start_error()` is the errno, and nothing runs.
  Child(std::vector<std::string> const& command, std::vector<std::string> const& extra, sigset_t const& mask);
  ~Child();
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;

  [[nodiscard]] int start_error() const { return start_error_; }

  /// Readable once the command has ended.
  [[nodiscard]] int descriptor() const { return pidfd_; }

  /// Whether Ctrl-C reaches it without our doing.
  [[nodiscard]] bool shares_our_group() const { return !own_group_; }

  /// To the command and its group. Only before wait().
  void send(int signal) const;

  /// Waits until it has ended; its exit code as a shell would give it.
  [[nodiscard]] int wait();

 private:
  bool own_group_ = false;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int start_error_ = 0;
};

}  // namespace holdfast::tool

#include "tools/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "tools/exit_codes.hpp"

namespace holdfast::tool {
namespace {

bool overrides(std::string_view setting, std::string_view inherited) {
  return inherited.starts_with(setting.substr(0, setting.find('=') + 1));
}

std::vector<char*> environment(std::vector<std::string> const& extra) {
  std::vector<char*> result;
  for (char** entry = environ; entry && *entry; ++entry) {
    bool replaced = false;
    for (auto const& setting : extra) replaced = replaced || overrides(setting, *entry);
    if (!replaced) result.push_back(*entry);
  }
  for (auto const& setting : extra) result.push_back(const_cast<char*>(setting.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<char*> arguments(std::vector<std::string> const& command) {
  std::vector<char*> result;
  for (auto const& word : command) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Start {
  char** argv;
  char** envp;
  sigset_t const* mask;
  struct sigaction const* on_child;
  bool own_group;
  pid_t parent;
  int report;  ///< where errno goes if exec fails; closed by exec
};

/// In the child, where other threads' locks may be held for ever: system calls only.
[[noreturn]] void become(Start const& start) {
  if (start.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(exit_codes::lost);  // it died before it could be watched
  // Dispositions are as we found them ourselves: what nohup ignores stays ignored.
  sigaction(SIGCHLD, start.on_child, nullptr);
  sigprocmask(SIG_SETMASK, start.mask, nullptr);
  execvpe(start.argv[0], start.argv, start.envp);
  int const error = errno;
  (void)!write(start.report, &error, sizeof error);
  _exit(exit_codes::not_found);
}

}  // namespace

Child::Child(std::vector<std::string> const& command, std::vector<std::string> const& extra, sigset_t const& mask)
    : own_group_(!isatty(STDIN_FILENO)) {
  auto argv = arguments(command);
  auto envp = environment(extra);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    start_error_ = errno;
    return;
  }
  // Whoever started us may ignore it, and the kernel would then take the command's exit code for itself.
  struct sigaction collect {};
  collect.sa_handler = SIG_DFL;
  struct sigaction before {};
  sigaction(SIGCHLD, &collect, &before);
  Start const start{argv.data(), envp.data(), &mask, &before, own_group_, getpid(), report[1]};
  pid_ = fork();
  if (pid_ == 0) become(start);
  if (pid_ < 0) start_error_ = errno;
  close(report[1]);
  // Ends with exec, which closes the other end; so the group exists, too, before we signal it.
  if (int error = 0; pid_ > 0 && read(report[0], &error, sizeof error) == sizeof error) start_error_ = error;
  close(report[0]);
  if (start_error_ != 0) return;
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ < 0) start_error_ = errno;
}

Child::~Child() {
  if (pid_ > 0) {
    send(SIGKILL);
    (void)wait();
  }
  if (pidfd_ >= 0) close(pidfd_);
}

void Child::send(int signal) const { kill(own_group_ ? -pid_ : pid_, signal); }

int Child::wait() {
  int status = 0;
  pid_t ended = -1;
  while ((ended = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (ended < 0) return exit_codes::internal;
  return WIFSIGNALED(status) ? exit_codes::by_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace holdfast::tool

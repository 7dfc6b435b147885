#include "tests/file/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

namespace holdfast::test {

namespace fs = std::filesystem;

Process::Process(std::vector<std::string> arguments) {
  int to[2];
  int from[2];
  EXPECT_EQ(::pipe2(to, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(from, O_CLOEXEC), 0);
  arguments.insert(arguments.begin(), {"file_backend", "--worker"});
  std::vector<char*> argv;
  for (auto& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(to[0], STDIN_FILENO);
    ::dup2(from[1], STDOUT_FILENO);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  in_ = to[1];
  out_ = from[0];
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(heard_, other.heard_);
  return *this;
}

Process::~Process() { kill(); }

void Process::close_pipes() {
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0) ::close(out_);
  in_ = out_ = -1;
}

void Process::say(std::string const& line) const {
  auto const whole = line + "\n";
  EXPECT_EQ(::write(in_, whole.data(), whole.size()), static_cast<ssize_t>(whole.size())) << line;
}

std::string Process::hear(std::chrono::milliseconds patience) {
  auto const end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (auto const at = heard_.find('\n'); at != std::string::npos) {
      auto line = heard_.substr(0, at);
      heard_.erase(0, at + 1);
      return line;
    }
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left <= 0ms) return "[silence]";
    pollfd event{out_, POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    auto const n = ::read(out_, buffer, sizeof buffer);
    if (n <= 0) return "[the end]";
    heard_.append(buffer, static_cast<std::size_t>(n));
  }
}

void Process::signal(int number) const { ::kill(pid_, number); }

std::int64_t Process::kill() {
  auto const begun = now();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  close_pipes();
  return begun;
}

int Process::wait(std::chrono::milliseconds patience) {
  int status = -1;
  if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, patience)) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Process client_process(std::string const& url) {
  Process process({"client", url});
  EXPECT_EQ(process.hear(), "ready");
  return process;
}

Grant granted(std::string const& answer) {
  unsigned long long fence = 0;
  long long at = 0;
  if (std::sscanf(answer.c_str(), "granted %llu %lld", &fence, &at) != 2) ADD_FAILURE() << answer;
  return {fence, at};
}

std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Directory::Directory() {
  auto const base = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  auto pattern = (base / "holdfast-file-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

Directory::~Directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::size_t files_in(std::string const& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

}  // namespace holdfast::test

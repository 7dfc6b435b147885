#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/crc.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/error.hpp"
#include "common/timers.hpp"
#include "local/file_backend.hpp"
#include "local/file_store.hpp"
#include "local/file_watch.hpp"

// What the tests of the file backend share.

namespace holdfast::detail::file {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::string_view kBoot = "0b5ff7f4-0000-4000-8000-000000000001";
constexpr std::string_view kNextBoot = "0b5ff7f4-0000-4000-8000-000000000002";

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    auto pattern = (fs::temp_directory_path() / "holdfast-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }
  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

inline std::size_t files_in(std::string const& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

inline void write_file(std::string const& path, void const* data, std::size_t size, std::uint64_t offset) {
  Fd const fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_EQ(write_at(fd.get(), data, size, offset), 0);
}

class FakeSessions final : public Liveness {
 public:
  Result<bool> alive(std::uint64_t session) override {
    ++asked;
    return !dead.contains(session);
  }
  std::set<std::uint64_t> dead;
  int asked = 0;
};

/// A child process that does something, says so, and waits to be killed.
class Child {
 public:
  explicit Child(std::function<void()> const& what) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      what();
      (void)!::write(ends[1], "!", 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace holdfast::detail::file

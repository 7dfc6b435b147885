#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/eventually.hpp"

// Real processes for tests of the file backend: this very program, run again as a worker (worker.cpp) that does what it
// is told on its standard input, line by line, and answers on its standard output.

namespace holdfast::test {

using namespace std::chrono_literals;

/// One worker. Killed and reaped when it goes.
class Process {
 public:
  /// Runs this program with these arguments, which begin with the role.
  explicit Process(std::vector<std::string> arguments);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  void say(std::string const& line) const;

  /// The next line; what went wrong, in brackets, if none comes.
  std::string hear(std::chrono::milliseconds patience = 20s);
  std::string ask(std::string const& line) {
    say(line);
    return hear();
  }

  void signal(int number) const;
  /// Kills and reaps it; returns when that was begun.
  std::int64_t kill();
  /// Waits for its end by itself: its exit status, or -1.
  int wait(std::chrono::milliseconds patience = 60s);

 private:
  void close_pipes();

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string heard_;
};

/// A worker that is connected to a directory.
Process client_process(std::string const& url);

/// The fence (and the instant) in an answer such as "granted 17 4711"; 0 if it is none.
struct Grant {
  std::uint64_t fence = 0;
  std::int64_t at = 0;
};
Grant granted(std::string const& answer);

/// CLOCK_BOOTTIME in nanoseconds: the same for all processes.
std::int64_t now();

/// A directory of its own for each test, in memory where there is such a place.
class Directory {
 public:
  Directory();
  ~Directory();
  Directory(Directory const&) = delete;
  Directory& operator=(Directory const&) = delete;

  std::string const& path() const { return path_; }
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }
  std::string locks() const { return path_ + "/locks"; }
  /// Its `locks`, with a beat so slow that whatever happens in a test, happens by an event.
  std::string url(std::string const& query = "ttl=60s") const { return "file:" + locks() + "?" + query; }

 private:
  std::string path_;
};

std::size_t files_in(std::string const& path);
inline bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// What a worker does; the program's main calls it.
int work(std::vector<std::string> const& arguments);
int storm(std::vector<std::string> const& arguments);
int many(std::vector<std::string> const& arguments);
int steps(std::vector<std::string> const& arguments);

}  // namespace holdfast::test

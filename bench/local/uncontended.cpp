#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <holdfast/holdfast.hpp>

#include "bench/local/bench.hpp"

namespace holdfast::bench {

namespace {

constexpr int kBatch = 200;  // shorter than what a scheduler gives at a time
constexpr int kTicketsPerSync = 1024;

void must(bool fine) {
  if (fine) return;
  std::perror("bench");
  std::abort();
}

/// The system calls of one acquire and release, in their order, with their sizes, and nothing else. `same-syscalls`
/// compares them with what the library does.
class Calls {
 public:
  explicit Calls(std::string const& path) {
    must(::mkdir(path.c_str(), 0700) == 0);
    counter_ = ::open((path + "/counter").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(::mkdir((path + "/lines").c_str(), 0700) == 0);
    lines_ = ::open((path + "/lines").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(counter_ >= 0 && lines_ >= 0 && ::pwrite(counter_, buffer_, kCounter, 0) == kCounter);
  }
  ~Calls() {
    ::close(counter_);
    ::close(lines_);
  }
  Calls(Calls const&) = delete;
  Calls& operator=(Calls const&) = delete;

  void acquire_and_release() {
    // Acquire.
    lock(F_WRLCK);
    int line = ::openat(lines_, "x", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    must(::pread(line, buffer_, kPage, 0) == 0);
    must(::pread(counter_, buffer_, kCounter, 0) == kCounter);
    if (++tickets_ % kTicketsPerSync == 0) {
      must(::pwrite(counter_, buffer_, kCounter, 0) == kCounter);
      must(::fdatasync(counter_) == 0);
    }
    must(::pwrite(counter_, buffer_, kCounter, 0) == kCounter);
    must(::pwrite(line, buffer_, kLine, 0) == kLine);
    lock(F_UNLCK);
    ::close(line);
    // Release.
    lock(F_WRLCK);
    line = ::openat(lines_, "x", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    must(::pread(line, buffer_, kPage, 0) == kLine);
    must(::unlinkat(lines_, "x", 0) == 0);
    lock(F_UNLCK);
    ::close(line);
  }

 private:
  static constexpr ssize_t kCounter = 88;
  static constexpr ssize_t kLine = 1024;
  static constexpr ssize_t kPage = 4096;

  void lock(short type) const {
    struct flock what {};
    what.l_type = type;
    what.l_whence = SEEK_SET;
    what.l_len = 1;
    must(::fcntl(counter_, F_OFD_SETLK, &what) == 0);
  }

  int counter_ = -1;
  int lines_ = -1;
  int tickets_ = 0;
  char buffer_[kPage] = {};
};

void acquire_and_release(Lock& lock) {
  auto hold = lock.acquire();
  must(hold && hold->release());
}

template <class What>
double best_of(double best, What const& what) {
  auto const begin = Clock::now();
  for (int i = 0; i < kBatch; ++i) what();
  return std::min(best, microseconds(Clock::now() - begin) / kBatch);
}

}  // namespace

Scratch::Scratch(std::string const& base) {
  auto pattern = base + "/holdfast-bench-XXXXXX";
  must(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// In turns, so that what else the machine does hits both; the best batch of each, since noise only ever adds.
Uncontended uncontended(std::string const& base, int rounds) {
  Scratch const scratch(base);
  Calls calls(scratch.path() + "/calls");
  auto const client = Client::connect("file:" + scratch.path() + "/locks").value();
  auto lock = client.lock("x");
  Uncontended result{1e9, 1e9};
  for (int i = 0; i < rounds; ++i) {
    result.calls = best_of(result.calls, [&] { calls.acquire_and_release(); });
    result.library = best_of(result.library, [&] { acquire_and_release(lock); });
  }
  return result;
}

void library_alone(std::string const& base, int times) {
  Scratch const scratch(base);
  auto const client = Client::connect("file:" + scratch.path() + "/locks").value();
  auto lock = client.lock("x");
  for (int i = 0; i < times; ++i) acquire_and_release(lock);
}

void calls_alone(std::string const& base, int times) {
  Scratch const scratch(base);
  Calls calls(scratch.path() + "/calls");
  for (int i = 0; i < times; ++i) calls.acquire_and_release();
}

}  // namespace holdfast::bench

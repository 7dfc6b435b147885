#include "common/fork.hpp"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace holdfast::detail {
namespace {

std::atomic<unsigned> generation{0};

/// A descriptor and what it stood for when it came here: its number may have been used again by somebody else.
struct Mine {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;

  bool still() const {
    struct stat now {};
    return ::fstat(fd, &now) == 0 && now.st_dev == device && now.st_ino == inode;
  }
};

struct Registry {
  std::mutex mutex;
  std::vector<Mine> all;

  void remove(int fd) {
    std::erase_if(all, [fd](Mine const& each) { return each.fd == fd; });
  }
  void add(int fd) {
    struct stat now {};
    ::fstat(fd, &now);
    remove(fd);
    all.push_back({fd, now.st_dev, now.st_ino});
  }
};

void in_child();

// Never destroyed: a fork may come while static objects go.
Registry& registry() {
  static auto* const the = [] {
    auto* const made = new Registry;
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); }, in_child);
    return made;
  }();
  return *the;
}

void in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (Mine const& each : registry().all)
    if (each.still()) ::close(each.fd);
  registry().all.clear();
  registry().mutex.unlock();
}

}  // namespace

unsigned fork_generation() noexcept {
  registry();
  return generation.load(std::memory_order_relaxed);
}

int open_here_only(std::function<int()> const& open) {
  std::lock_guard const guard(registry().mutex);
  int const fd = open();
  if (fd >= 0) registry().add(fd);
  return fd;
}

void close_here_only(int fd) {
  std::lock_guard const guard(registry().mutex);
  registry().remove(fd);
  ::close(fd);
}

void close_in_child(int fd) {
  std::lock_guard const guard(registry().mutex);
  registry().add(fd);
}

void keep_in_child(int fd) {
  std::lock_guard const guard(registry().mutex);
  registry().remove(fd);
}

}  // namespace holdfast::detail

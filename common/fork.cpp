#include "common/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace holdfast::detail {
namespace {

std::atomic<unsigned> generation{0};

struct Registry {
  std::mutex mutex;
  std::vector<int> fds;
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
  for (int fd : registry().fds) ::close(fd);
  registry().fds.clear();
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
  if (fd >= 0) registry().fds.push_back(fd);
  return fd;
}

void close_here_only(int fd) {
  std::lock_guard const guard(registry().mutex);
  std::erase(registry().fds, fd);
  ::close(fd);
}

void close_in_child(int fd) {
  std::lock_guard const guard(registry().mutex);
  registry().fds.push_back(fd);
}

void keep_in_child(int fd) {
  std::lock_guard const guard(registry().mutex);
  std::erase(registry().fds, fd);
}

}  // namespace holdfast::detail

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <holdfast/holdfast.hpp>
#include <new>
#include <thread>
#include <vector>

#include "bench/local/bench.hpp"

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;

/// Between the processes of one measurement.
struct Shared {
  std::atomic<int> turn{0};  ///< how many have joined: whose turn it is to join next
  std::atomic<bool> run{false};
  std::atomic<long> hand_overs{0};
  std::atomic<bool> enough{false};
  std::atomic<bool> broken{false};
};

void fail(Shared& shared, std::string const& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  shared.broken = true;
}

/// A waiter that, once granted, gives the lock back and stands in line again.
void stand(Shared& shared, Lock const& lock) {
  lock.async_acquire({}, [&shared, lock](error_code ec, Hold hold) {
    if (shared.enough || shared.broken) return;
    if (ec) return fail(shared, ec.message());
    ++shared.hand_overs;
    stand(shared, lock);  // first, so that the line stays as long as it is
    hold = Hold();
  });
}

/// One process: its share of the waiters, joined in turn with those of the others, and the first holder in process 0.
void take_part(Shared& shared, std::string const& url, int waiters, int processes, int me) {
  auto client = Client::connect(url);
  if (!client) return fail(shared, client.error().message());
  auto lock = client->lock("x");
  Hold first;
  if (me == 0) first = lock.acquire().value();
  auto const wait_for = [&](auto const& condition) {
    while (!condition() && !shared.broken) std::this_thread::yield();
  };
  if (me == 0) ++shared.turn;
  wait_for([&] { return shared.turn > 0; });
  for (int i = 0; i < waiters; ++i) {
    if ((i + 1) % processes != me) continue;  // the holder is in process 0, so the first waiter is not
    wait_for([&] { return shared.turn == i + 1; });
    stand(shared, lock);
    ++shared.turn;
  }
  wait_for([&] { return shared.run.load(); });
  first = Hold();
  wait_for([&] {
    std::this_thread::sleep_for(1ms);
    return shared.enough.load();
  });
  (void)client->close();
}

double processor_time(std::vector<pid_t> const& processes) {
  double sum = 0;
  for (auto const pid : processes) {
    clockid_t clock = 0;
    timespec t{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0) continue;
    sum += static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
  }
  return sum;
}

HandOver measure(Shared& shared, std::vector<pid_t> const& processes, int waiters) {
  auto const wait_for = [&](auto const& condition) {
    while (!condition() && !shared.broken) std::this_thread::sleep_for(1ms);
  };
  wait_for([&] { return shared.turn == waiters + 1; });
  shared.run = true;
  wait_for([&] { return shared.hand_overs > 500; });  // warm
  auto const before = shared.hand_overs.load();
  auto const used = processor_time(processes);
  auto const begin = Clock::now();
  wait_for([&] { return Clock::now() - begin > 250ms && shared.hand_overs > before + 1000; });
  auto const took = microseconds(Clock::now() - begin);
  auto const spent = processor_time(processes) - used;
  auto const done = static_cast<double>(shared.hand_overs - before);
  shared.enough = true;
  return {took / done, spent / done};
}

}  // namespace

// The measuring process has no client and so no thread of one: it can fork.
HandOver hand_over(std::string const& url, int waiters, int processes) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& shared = *new (memory) Shared;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    take_part(shared, url, waiters, processes, i);
    ::_exit(0);
  }
  auto const result = measure(shared, children, waiters);
  for (auto const child : children) ::waitpid(child, nullptr, 0);
  bool const broken = shared.broken;
  ::munmap(memory, sizeof(Shared));
  if (broken) std::exit(1);
  return result;
}

}  // namespace holdfast::bench

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/etcd/cluster.hpp"

namespace holdfast::test {
namespace {

std::size_t threads() {
  auto const tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(Etcd, TenThousandHoldsAndTenThousandWaitersNeedNoMoreThreads) {
  constexpr int kMany = 10'000;
  auto client = connect("ttl=60s");
  auto const before = threads();
  auto const memory_before = resident_bytes();
  std::vector<Hold> holds(kMany);
  std::atomic<int> granted{0};
  for (int i = 0; i < kMany; ++i)
    client.lock("lock-" + std::to_string(i)).async_acquire({}, [&, i](error_code ec, Hold hold) {
      EXPECT_FALSE(ec) << ec.message();
      holds[static_cast<std::size_t>(i)] = std::move(hold);
      ++granted;
    });
  ASSERT_TRUE(eventually([&] { return granted == kMany; }, 60s)) << granted;
  auto const memory_held = resident_bytes();
  std::atomic<int> served{0};
  for (int i = 0; i < kMany; ++i)
    client.lock("lock-" + std::to_string(i)).async_acquire({}, [&](error_code ec, Hold) {
      EXPECT_FALSE(ec) << ec.message();
      ++served;
    });
  ASSERT_TRUE(eventually([&] { return client.inspect("lock-" + std::to_string(kMany - 1))->size() == 2; }, 60s));
  auto const memory_waiting = resident_bytes();
  EXPECT_LE(threads(), before + 2);
  std::cout << (memory_held - memory_before) / kMany << " bytes per hold, " << (memory_waiting - memory_held) / kMany
            << " bytes per waiter\n";
  for (auto const& hold : holds) EXPECT_TRUE(hold.valid());
  holds.clear();
  EXPECT_TRUE(eventually([&] { return served == kMany; }, 60s)) << served;
}

TEST_F(Etcd, TenThousandWaitersOnOneLockAreServedInOrder) {
  constexpr std::size_t kMany = 10'000;
  auto holder = connect("ttl=60s"), client = connect("ttl=60s");
  auto held = holder.lock("x").acquire().value();
  auto const before = threads();
  auto const memory_before = resident_bytes();
  std::atomic<std::size_t> served{0};
  Fence last = held.fence();  // touched on the notification thread alone
  auto const begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kMany; ++i)
    client.lock("x").async_acquire({}, [&](error_code ec, Hold hold) {
      EXPECT_FALSE(ec) << ec.message();
      EXPECT_GT(hold.fence(), last);
      last = hold.fence();
      ++served;
    });
  auto const joined = [&] {
    std::this_thread::sleep_for(100ms);  // a listing of the whole line each time: not too often
    return holder.inspect("x")->size() == kMany + 1;
  };
  ASSERT_TRUE(eventually(joined, 100s));
  auto const took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun);
  std::cout << took.count() << " s to join, " << (resident_bytes() - memory_before) / kMany << " bytes per waiter\n";
  EXPECT_LE(threads(), before + 2);
  EXPECT_EQ(served, 0u);
  EXPECT_TRUE(held.release());
  EXPECT_TRUE(eventually([&] { return served == kMany; }, 100s)) << served;
}

/// How long a cycle takes, in the middle of so many.
double cycle_seconds(Client& client) {
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    auto const begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(client.lock("x").acquire().value().release());
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  std::nth_element(times.begin(), times.begin() + 150, times.end());
  return times[150];
}

/// As many as HOLDFAST_TEST_CYCLES says; 100,000 take some minutes.
TEST_F(Etcd, AnAcquireCostsWhatTheFirstDidAfterManyCyclesWithoutACompaction) {
  char const* const cycles = std::getenv("HOLDFAST_TEST_CYCLES");
  auto client = connect("ttl=60s");
  (void)cycle_seconds(client);
  double const first = cycle_seconds(client);
  for (int i = 0, end = cycles == nullptr ? 5'000 : std::atoi(cycles); i < end; ++i)
    (void)client.lock("x").acquire().value();
  double const last = cycle_seconds(client);
  std::cout << 1000 * first << " ms at first, " << 1000 * last << " ms at last\n";
  EXPECT_LT(last, 1.5 * first + 0.0005);
}

}  // namespace
}  // namespace holdfast::test

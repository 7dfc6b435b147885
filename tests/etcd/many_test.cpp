#include <unistd.h>

#include <atomic>
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

}  // namespace
}  // namespace holdfast::test

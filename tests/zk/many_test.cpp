#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

class ZkMany : public Zk {};

TEST_F(ZkMany, DirectoriesOfLocksThatWereUsedOnceGo) {
  Raw raw(hosts());
  auto client = connect();
  std::vector<std::future<Hold>> holds;
  for (int i = 0; i < 1000; ++i)
    holds.push_back(client.lock("once/" + std::to_string(i)).async_acquire({}, boost::asio::use_future));
  for (auto& hold : holds) EXPECT_TRUE(hold.get().valid());
  EXPECT_TRUE(eventually([&] { return raw.children(root_).empty(); }, 60s));
}

/// The server removes the directory whenever it finds it empty; nobody is to notice.
TEST_F(ZkMany, AnAcquireThatRacesWithTheRemovalOfItsDirectorySucceeds) {
  Raw raw(hosts());
  auto client = connect();
  std::atomic<bool> stop{false};
  std::atomic<int> removed{0};
  std::jthread const remover([&] {
    while (!stop) removed += raw.remove(root_ + "/x") == ZOK ? 1 : 0;
  });
  Fence last;
  for (int i = 0; i < 200; ++i) {
    auto hold = client.lock("x").acquire_for(10s).value();
    EXPECT_GT(hold.fence(), last);
    last = hold.fence();
    EXPECT_TRUE(hold.release());
  }
  stop = true;
  EXPECT_GT(removed, 0);
}

}  // namespace
}  // namespace holdfast::test

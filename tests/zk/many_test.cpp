#include <algorithm>
#include <filesystem>

#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t kMany = 5000;

class ZkMany : public Zk {
 protected:
  static std::size_t threads() {
    auto const all = std::filesystem::directory_iterator("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
};

/// Grants, in the order in which they came; each is given back at once, or kept.
class Grants {
 public:
  explicit Grants(bool keep) : keep_(keep) {}

  void wait_for(Client const& client, std::string const& name) {
    client.lock(name).async_acquire({}, [this](error_code ec, Hold hold) {
      std::lock_guard const guard(mutex_);
      if (ec) ++errors_;
      if (!ec && hold.valid()) fences_.push_back(hold.fence());
      if (!ec && keep_) holds_.push_back(std::move(hold));
    });
  }

  std::size_t count() {
    std::lock_guard const guard(mutex_);
    return fences_.size();
  }
  int errors() {
    std::lock_guard const guard(mutex_);
    return errors_;
  }
  bool in_order() {
    std::lock_guard const guard(mutex_);
    return std::is_sorted(fences_.begin(), fences_.end());
  }
  std::vector<Hold> take() {
    std::lock_guard const guard(mutex_);
    return std::exchange(holds_, {});
  }

 private:
  bool const keep_;
  std::mutex mutex_;
  int errors_ = 0;
  std::vector<Fence> fences_;
  std::vector<Hold> holds_;
};

TEST_F(ZkMany, WaitersOfOneLineTakeNoThreadsAndAreServedInOrder) {
  Grants grants(false);
  Proxy proxy(cluster_.address(1));
  auto other = connect(), client = through(proxy);
  auto first = other.lock("x").acquire().value();
  Raw raw(hosts());
  grants.wait_for(client, "x");
  ASSERT_TRUE(eventually([&] { return raw.children(root_ + "/x").size() == 2; }));
  auto const before = threads();
  for (std::size_t i = 1; i < kMany; ++i) grants.wait_for(client, "x");
  ASSERT_TRUE(eventually([&] { return raw.children(root_ + "/x").size() == kMany + 1; }, 120s));
  EXPECT_EQ(threads(), before);
  EXPECT_LT(static_cast<std::size_t>(proxy.count(Op::children)), kMany / 5) << "the line was sent to everybody in it";
  EXPECT_EQ(grants.count(), 0u);
  EXPECT_TRUE(first.release());
  EXPECT_TRUE(eventually([&] { return grants.count() == kMany; }, 120s)) << grants.count();
  EXPECT_EQ(grants.errors(), 0);
  EXPECT_TRUE(grants.in_order());
}

TEST_F(ZkMany, HoldsOfDistinctLocksTakeNoThreadsAndStayValid) {
  Grants grants(true);
  auto client = connect();
  auto hold = client.lock("canary").acquire().value();
  auto const before = threads();
  for (std::size_t i = 0; i < kMany; ++i) grants.wait_for(client, "many/" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return grants.count() == kMany; }, 120s)) << grants.count();
  EXPECT_EQ(threads(), before);
  auto const holds = grants.take();
  // The proof that the first one rested on when all were there is over, and there was another one.
  auto const over = std::chrono::steady_clock::now() + hold.valid_for();
  ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > over; }));
  EXPECT_TRUE(hold.valid());
  EXPECT_TRUE(std::all_of(holds.begin(), holds.end(), [](Hold const& each) { return each.valid(); }));
}

/// A beat has to wait for the answers to all that was sent before it, so that may not be much.
TEST_F(ZkMany, OnlySoManyRequestsAreUnderWay) {
  constexpr int kUnderWay = 256;
  Grants grants(true);
  int const member = cluster_.follower();
  Proxy proxy(cluster_.address(member));
  auto client = through(proxy, "ttl=30s");
  cluster_.tell("pause", member);
  for (std::size_t i = 0; i < 1000; ++i) grants.wait_for(client, "many/" + std::to_string(i));
  EXPECT_TRUE(eventually([&] { return proxy.count(Op::create) == kUnderWay; }));
  EXPECT_FALSE(eventually([&] { return proxy.count(Op::create) > kUnderWay; }, 500ms));
  cluster_.tell("resume", member);
  EXPECT_TRUE(eventually([&] { return grants.count() == 1000; }, 60s)) << grants.count();
}

/// Their names are so long that the watches on all of them would not fit into the one packet of a reconnect.
TEST_F(ZkMany, WaitersForOthersSurviveAReconnect) {
  Grants theirs(true), ours(false);
  Proxy proxy(cluster_.address(1));
  auto other = connect(), client = through(proxy, "request_timeout=120s");
  auto hold = client.lock("canary").acquire().value();
  auto const name = [](std::size_t i) { return std::string(160, 'n') + std::to_string(i); };
  for (std::size_t i = 0; i < kMany; ++i) theirs.wait_for(other, name(i));
  ASSERT_TRUE(eventually([&] { return theirs.count() == kMany; }, 120s)) << theirs.count();
  auto const before = threads();
  proxy.reset();
  for (std::size_t i = 0; i < kMany; ++i) ours.wait_for(client, name(i));
  // Requests are answered in order: first all have joined, then all watches are set.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.inspect("canary"));
  auto const watches = static_cast<std::size_t>(proxy.count(Op::get));
  EXPECT_GT(watches, kMany / 2);
  EXPECT_LT(watches, kMany) << "the limit was not even reached";
  EXPECT_EQ(threads(), before);
  proxy.cut_at(Op::children, Proxy::When::before);
  auto const inspected = std::async(std::launch::async, [&] { return client.inspect("canary"); });
  ASSERT_TRUE(eventually([&] { return proxy.was_cut(); }));
  proxy.go_on();
  inspected.wait();
  ASSERT_TRUE(eventually([&] { return client.inspect("canary").has_value(); }));
  EXPECT_TRUE(hold.valid());
  EXPECT_EQ(ours.count(), 0u);
  (void)theirs.take();
  EXPECT_TRUE(eventually([&] { return ours.count() == kMany; }, 120s)) << ours.count();
  EXPECT_EQ(ours.errors(), 0);
  EXPECT_TRUE(hold.valid());
}

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

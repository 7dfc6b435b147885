#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

class ZkRoundTrips : public Zk {};

TEST_F(ZkRoundTrips, AnUncontendedCycleIsCreateListAndDelete) {
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=60s");
  Raw raw(hosts());  // makes the directories: one of ours could be removed, and made again, in between
  ASSERT_EQ(raw.create(root_), ZOK);
  ASSERT_EQ(raw.create(root_ + "/x"), ZOK);
  EXPECT_TRUE(client.lock("x").acquire().value().release());
  proxy.reset();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(client.lock("x").acquire().value().release());
  EXPECT_EQ(proxy.count(Op::create), 10);
  EXPECT_EQ(proxy.count(Op::children), 10);
  EXPECT_EQ(proxy.count(Op::remove), 10);
  for (Op const none : {Op::exists, Op::get, Op::sync}) EXPECT_EQ(proxy.count(none), 0);
  EXPECT_EQ(proxy.events(), 0);
}

TEST_F(ZkRoundTrips, TheOnlyOneBehindIsHandedTheLockWithoutARequest) {
  Proxy proxy(cluster_.address(1));
  auto a = connect(), b = through(proxy, "ttl=60s");
  auto hold = a.lock("x").acquire().value();
  auto next = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return proxy.count(Op::get) == 1; })) << "the watch";
  ASSERT_EQ(b.inspect("x")->size(), 2U) << "answered behind the watch, in the order of the session";
  proxy.reset();
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(next.get().valid());
  for (Op const none : {Op::create, Op::children, Op::exists, Op::get, Op::sync}) EXPECT_EQ(proxy.count(none), 0);
  EXPECT_EQ(proxy.events(), 1);
}

/// A hold is proven by writes that a quorum agrees on, which raise the ensemble's zxid; an idle client costs it none.
TEST_F(ZkRoundTrips, ABeatIsAWriteWhileSomethingIsHeldAndAReadOtherwise) {
  Proxy proxy(cluster_.address(cluster_.follower()));
  auto client = through(proxy, "ttl=1s");
  auto const beats = [&](Op op) {
    int const before = proxy.count(op);
    return eventually([&] { return proxy.count(op) >= before + 3; });
  };
  Raw raw(hosts());
  auto const zxid = [&] { return raw.create_entry(root_ + "/probe-").stat.czxid; };
  auto hold = client.lock("x").acquire().value();
  auto before = zxid();
  EXPECT_TRUE(beats(Op::multi));
  EXPECT_GE(zxid(), before + 1 + 2) << "the probe itself, and beats";
  EXPECT_TRUE(hold.release());
  // The server removes the empty directory in between.
  EXPECT_TRUE(eventually([&] {
    before = zxid();
    return beats(Op::exists) && zxid() == before + 1;
  }));
}

TEST_F(ZkRoundTrips, ADepartureWakesOneWaiterWhichListsOnce) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  auto second = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  std::vector<std::unique_ptr<Proxy>> proxies;
  std::vector<Client> clients;
  std::vector<std::future<Hold>> waiters;
  for (std::size_t i = 0; i < 3; ++i) {
    proxies.push_back(std::make_unique<Proxy>(cluster_.address(static_cast<int>(i) + 1)));
    clients.push_back(through(*proxies.back(), "ttl=60s"));
    waiters.push_back(clients.back().lock("x").async_acquire({}, boost::asio::use_future));
    ASSERT_TRUE(eventually([&] { return proxies[i]->count(Op::get) == 1; }));
    ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == i + 3; }));
  }
  for (auto& proxy : proxies) proxy->reset();
  auto const events = [&] { return std::vector{proxies[0]->events(), proxies[1]->events(), proxies[2]->events()}; };
  EXPECT_TRUE(hold.release());
  hold = second.get();
  EXPECT_EQ(events(), (std::vector{0, 0, 0})) << "somebody was woken who cannot be next";
  EXPECT_TRUE(hold.release());
  hold = waiters[0].get();
  EXPECT_EQ(events(), (std::vector{1, 0, 0}));
  EXPECT_EQ(proxies[0]->count(Op::children), 1) << "more than one had been ahead";
  EXPECT_TRUE(hold.release());
  hold = waiters[1].get();
  EXPECT_EQ(events(), (std::vector{1, 1, 0}));
  EXPECT_EQ(proxies[1]->count(Op::children), 1);
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(waiters[2].get().release());
}

}  // namespace
}  // namespace holdfast::test

#include "tests/zk/place.hpp"

namespace holdfast::test {
namespace {

/// The connection is cut at one request of a whole cycle; in the end nothing may show of it.
class ZkLostReply : public Zk, public testing::WithParamInterface<std::tuple<Op, Proxy::When>> {};

TEST_P(ZkLostReply, LeavesNothingBehindAndNobodyHoldsTwice) {
  auto const [op, when] = GetParam();
  auto other = connect();
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=6s");
  Fence before = client.lock("x").acquire().value().fence();
  auto first = other.lock("x").acquire().value();
  proxy.cut_at(op, when);
  auto waiting = client.lock("x").async_acquire({}, boost::asio::use_future);
  if (op != Op::remove) {
    ASSERT_TRUE(eventually([&] { return proxy.was_cut(); }));
    proxy.target(cluster_.address(2));
    proxy.go_on();
  }
  ASSERT_TRUE(eventually([&] { return other.inspect("x")->size() == 2; }));
  EXPECT_TRUE(first.release());
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  auto hold = waiting.get();
  EXPECT_TRUE(hold.valid());
  EXPECT_GT(hold.fence(), before);
  EXPECT_EQ(other.inspect("x")->size(), 1u);
  EXPECT_EQ(other.inspect("x")->front().fence, hold.fence());
  std::thread healer([&] {
    if (op == Op::remove && eventually([&] { return proxy.was_cut(); })) proxy.go_on();
  });
  EXPECT_TRUE(hold.release());
  healer.join();
  EXPECT_TRUE(eventually([&] { return other.inspect("x")->empty(); }));
  EXPECT_TRUE(other.lock("x").try_acquire());
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

std::string name_of(testing::TestParamInfo<std::tuple<Op, Proxy::When>> const& each) {
  auto const [op, when] = each.param;
  std::string const what = op == Op::create     ? "Create"
                           : op == Op::children ? "List"
                           : op == Op::get      ? "Watch"
                                                : "Delete";
  return what + (when == Proxy::When::before ? "NotSent" : "Sent");
}

INSTANTIATE_TEST_SUITE_P(At, ZkLostReply,
                         testing::Combine(testing::Values(Op::create, Op::children, Op::get, Op::remove),
                                          testing::Values(Proxy::When::before, Proxy::When::after)),
                         name_of);

class ZkLateRequest : public Zk {};

/// Some of the requests went with the connection, and what was sent for the sake of the same joins came after it.
TEST_F(ZkLateRequest, ABurstOfJoinsThatIsCutInTheMiddleLosesNone) {
  constexpr std::size_t kJoins = 60;
  auto other = connect();
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=20s");
  for (Op const op : {Op::create, Op::children}) {
    for (auto const when : {Proxy::When::before, Proxy::When::after}) {
      auto first = other.lock("x").acquire_for(20s).value();
      proxy.cut_at(op, when, 3);
      std::atomic<std::size_t> granted{0};
      for (std::size_t i = 0; i < kJoins; ++i)
        client.lock("x").async_acquire({}, [&](error_code ec, Hold const& hold) { granted += !ec && hold.valid(); });
      ASSERT_TRUE(eventually([&] { return proxy.was_cut(); }));
      proxy.go_on();
      ASSERT_TRUE(eventually([&] { return other.inspect("x")->size() == kJoins + 1; }));
      EXPECT_TRUE(first.release());
      EXPECT_TRUE(eventually([&] { return granted == kJoins; }));
      EXPECT_TRUE(eventually([&] { return other.inspect("x")->empty(); }));
    }
  }
}

TEST_F(ZkLateRequest, ACreateThatIsStillOnItsWayIsRefusedOrAdopted) {
  auto other = connect();
  int const slow = cluster_.follower(), leader = cluster_.leader();
  Proxy proxy(cluster_.address(slow));
  auto client = through(proxy, "ttl=10s");
  (void)client.lock("x").acquire().value();
  for (int round = 0; round < 3; ++round) {
    proxy.target(cluster_.address(slow));
    auto mine = through(proxy, "ttl=10s");
    cluster_.tell("cut", slow);  // the create gets as far as this member
    proxy.cut_at(Op::children, Proxy::When::after);
    auto waiting = mine.lock("x").async_acquire({}, boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return proxy.was_cut(); }));
    proxy.target(cluster_.address(leader));
    proxy.go_on();
    // It is let go on its way at various moments of the recovery through the other member.
    if (round > 0) {
      ASSERT_TRUE(eventually([&] { return proxy.count(Op::sync) >= 1; }));
    }
    if (round > 1) {
      ASSERT_EQ(waiting.wait_for(10s), std::future_status::ready);
    }
    cluster_.tell("heal", slow);
    auto hold = waiting.get();
    EXPECT_TRUE(hold.valid());
    // Once the slow member takes part again, whatever it had to pass on has been passed on.
    cluster_.tell("ready");
    auto const after = Client::connect(at(cluster_.address(slow))).value().lock("y").acquire_for(20s).value();
    auto const line = other.inspect("x").value();
    ASSERT_EQ(line.size(), 1u);
    EXPECT_EQ(line[0].fence, hold.fence());
    EXPECT_TRUE(hold.release());
    EXPECT_TRUE(eventually([&] { return other.inspect("x")->empty(); }));
    proxy.reset();
  }
}

TEST_F(ZkLateRequest, AWaitThatEndsWhileTheConnectionIsDownKeepsItsDeadlineAndCleansUp) {
  auto other = connect();
  auto first = other.lock("x").acquire().value();
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=10s");
  proxy.cut_at(Op::children, Proxy::When::after);
  auto const begun = std::chrono::steady_clock::now();
  EXPECT_EQ(client.lock("x").acquire_for(500ms).error(), errc::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  proxy.go_on();
  EXPECT_TRUE(eventually([&] { return other.inspect("x")->size() == 1; }));
  EXPECT_TRUE(first.release());
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

}  // namespace
}  // namespace holdfast::test

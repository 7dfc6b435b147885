#include <boost/asio/use_future.hpp>
#include <future>
#include <regex>

#include "tests/etcd/cluster.hpp"

// The life of a lease, with everything that can happen to a cluster.

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string lease_of(std::string const& key) {
  auto const name = key.substr(key.rfind('/') + 1);
  return name.substr(0, name.find('-'));
}

TEST_F(Etcd, ALeaseRevokedByAnOperatorIsToldAndTheClientGoesOn) {
  auto client = connect("ttl=3s");
  auto hold = client.lock("x").acquire().value();
  auto const lost = hold.lost();
  etcdctl("lease revoke " + lease_of(keys("x").at(0)));
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, 2s)) << "a beat is one second";
  EXPECT_FALSE(hold.valid());
  auto const again = client.lock("x").acquire_for(5s).value();
  EXPECT_GT(again.fence(), hold.fence());
}

TEST_F(Etcd, AnEntryRemovedBySomebodyIsToldWithinABeat) {
  auto client = connect("ttl=3s");
  auto hold = client.lock("x").acquire().value();
  auto other = client.lock("y").acquire().value();
  auto const lost = hold.lost();
  etcdctl("del " + keys("x").at(0));
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, 3s));
  EXPECT_FALSE(hold.valid());
  EXPECT_TRUE(other.valid());
}

TEST_F(Etcd, AWaiterWhoseLeaseDiesJoinsAgainAndIsNotGrantedBefore) {
  auto a = connect("ttl=10s"), b = connect("ttl=3s");
  auto hold = a.lock("x").acquire().value();
  auto waiting = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return keys("x").size() == 2; }));
  auto const mine = lease_of(a.inspect("x")->at(0).fence == hold.fence() ? hold.sequencer().entry() : "");
  std::string theirs;
  for (auto const& key : keys("x"))
    if (lease_of(key) != mine) theirs = lease_of(key);
  etcdctl("lease revoke " + theirs);
  EXPECT_TRUE(eventually([&] { return keys("x").size() == 2; }, 5s)) << "it joins again, with another lease";
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  EXPECT_TRUE(hold.release());
  EXPECT_GT(waiting.get().fence(), hold.fence());
}

TEST_F(Etcd, AWaiterNearTheFrontIsToldAtOnceThatItsEntryWasRemovedAndJoinsAgain) {
  auto a = connect(), b = connect("ttl=300s");  // a beat every 100 s: it would come too late
  auto hold = a.lock("x").acquire().value();
  auto waiting = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  auto const first = a.inspect("x")->at(1).fence;
  std::string theirs;
  for (auto const& key : keys("x"))
    if (key.substr(key.rfind('/') + 1) != hold.sequencer().entry()) theirs = key;
  ASSERT_TRUE(eventually([&] {  // its watch over the line may still be on its way
    etcdctl("del " + theirs);
    return eventually([&] { return a.inspect("x")->size() == 2 && a.inspect("x")->at(1).fence > first; }, 2s);
  }));
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  EXPECT_TRUE(hold.release());
  EXPECT_GT(waiting.get().fence(), first);
}

TEST_F(Etcd, WithAllMembersStoppedAHoldEndsInTimeAndIsTold) {
  auto client = connect("ttl=3s&request_timeout=1s");
  auto hold = client.lock("x").acquire().value();
  auto const lost = hold.lost();
  order("pause all");
  auto const paused = Clock::now();
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, 4s));
  EXPECT_TRUE(eventually([&] { return !hold.valid(); }, 1s));
  EXPECT_LT(Clock::now() - paused, 3100ms);
  auto const refused = client.lock("y").acquire_for(1s);
  EXPECT_EQ(refused.error(), errc::unavailable) << refused.error().message();
  order("resume all");
  EXPECT_TRUE(client.lock("y").acquire_for(15s));
}

TEST_F(Etcd, AHoldOutlivesTheLeader) {
  auto client = connect("ttl=10s");
  auto hold = client.lock("x").acquire().value();
  auto const leader = order("leader");
  order("kill " + leader);
  auto const next = client.lock("y").acquire_for(10s);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_GT(next->fence(), hold.fence());
  EXPECT_TRUE(hold.valid());
  order("start " + leader);
  EXPECT_TRUE(hold.valid());
  EXPECT_FALSE(hold.lost().stop_requested());
  EXPECT_TRUE(hold.release());
}

TEST_F(Etcd, AMemberCutOffFromItsPeersIsLeftForAnother) {
  auto const before = connections();
  auto client = connect("ttl=6s");
  auto hold = client.lock("x").acquire().value();
  int const member = pinned(before);
  ASSERT_NE(member, 0);
  order("cut " + std::to_string(member));
  auto const next = client.lock("y").acquire_for(10s);
  ASSERT_TRUE(next) << next.error().message();
  auto const is_elsewhere = [&] {
    for (auto const& [port, to] : connections())
      if (!before.contains(port) && to != member) return true;
    return false;
  };
  EXPECT_TRUE(eventually(is_elsewhere)) << "left for another";
  EXPECT_TRUE(hold.valid());
  EXPECT_FALSE(hold.lost().stop_requested());
}

TEST_F(Etcd, AJoinHeldUpInAPausedMemberIsNotLeftBehindWhenItIsDeliveredLate) {
  for (int round = 0; round < 4; ++round) {
    auto const before = connections();
    auto client = connect("ttl=3s");
    auto const warm = client.lock("warm").acquire().value();
    int const member = pinned(before);
    ASSERT_NE(member, 0);
    order("pause " + std::to_string(member));
    auto granted = client.lock("x").acquire_for(20s);
    ASSERT_TRUE(granted) << granted.error().message();
    order("resume " + std::to_string(member));
    order("ready all");
    EXPECT_EQ(keys("x").size(), 1u);
    EXPECT_TRUE(granted->release());
    EXPECT_TRUE(eventually([&] { return keys("x").empty(); }));
  }
}

TEST_F(Etcd, ALeaveHeldUpInAPausedMemberRemovesNothingNewer) {
  auto const before = connections();
  auto client = connect("ttl=3s");
  auto hold = client.lock("x").acquire().value();
  int const member = pinned(before);
  ASSERT_NE(member, 0);
  order("pause " + std::to_string(member));
  EXPECT_TRUE(hold.release() || !hold.valid());
  auto const again = client.lock("x").acquire_for(20s);
  ASSERT_TRUE(again) << again.error().message();
  order("resume " + std::to_string(member));
  order("ready all");
  EXPECT_EQ(keys("x").size(), 1u) << "the late copy of the first release is for another entry";
  EXPECT_TRUE(again->valid());
}

TEST_F(Etcd, FencesGrowAcrossLeadersRestartsAndACompaction) {
  auto client = connect("ttl=10s");
  auto first = client.lock("x").acquire().value().fence();
  auto const revision = std::to_string(first.token());
  etcdctl("compact " + revision);
  etcdctl("defrag");
  auto second = client.lock("x").acquire_for(10s).value().fence();
  EXPECT_GT(second, first);
  auto const leader = order("leader");
  order("kill " + leader);
  auto of_another_leader = client.lock("x").acquire_for(20s);
  ASSERT_TRUE(of_another_leader) << of_another_leader.error().message();
  EXPECT_GT(of_another_leader->fence(), second);
  second = of_another_leader->fence();
  EXPECT_TRUE(of_another_leader->release());
  order("start " + leader);
  order("kill all");
  order("start all");
  auto const third = client.lock("x").acquire_for(20s);
  ASSERT_TRUE(third) << third.error().message();
  EXPECT_GT(third->fence(), second);
}

}  // namespace
}  // namespace holdfast::test

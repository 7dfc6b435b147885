#include <signal.h>
#include <algorithm>

#include "tests/file/process.hpp"
#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

class ZkSessionLife : public Zk {
 protected:
  static bool told(Hold const& hold, std::chrono::milliseconds patience = 10s) {
    return eventually([&] { return hold.lost().stop_requested(); }, patience);
  }
};

TEST_F(ZkSessionLife, AnExpiredSessionIsLostAndTheNextOneOpensByItself) {
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=1s");
  auto other = connect();
  auto hold = client.lock("x").acquire().value();
  auto const fence = hold.fence();
  proxy.freeze(true);
  auto next = other.lock("x").acquire_for(20s).value();
  EXPECT_FALSE(hold.valid()) << "two at once";
  EXPECT_TRUE(told(hold));
  EXPECT_GT(next.fence(), fence);
  proxy.freeze(false);
  EXPECT_TRUE(next.release());
  auto again = client.lock("x").acquire_for(20s).value();
  EXPECT_TRUE(again.valid());
  EXPECT_GT(again.fence(), next.fence());
  EXPECT_FALSE(hold.valid());
}

/// The answers to what was sent before a silence come after it, and prove nothing about the time in between.
TEST_F(ZkSessionLife, AProofCountsFromTheSendingNotFromTheAnswer) {
  constexpr auto kTtl = 10s, kLag = kTtl / 4;
  Proxy proxy(cluster_.address(1));
  auto client = through(proxy, "ttl=10s");
  auto hold = client.lock("x").acquire().value();
  int beats = proxy.count(Op::multi);
  ASSERT_TRUE(eventually([&] { return proxy.count(Op::multi) > beats; }));
  ASSERT_TRUE(client.inspect("x"));  // that one is answered; the next one is sent while nothing passes
  proxy.freeze(true);
  beats = proxy.count(Op::multi);
  auto const frozen = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > frozen + kTtl / 2; }));
  ASSERT_TRUE(hold.valid());
  proxy.freeze(false);
  // Nothing that is sent only now can build on anything before a lag is over.
  auto const thawed = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] {
    auto const until = std::chrono::steady_clock::now() + hold.valid_for();
    auto const now = std::chrono::steady_clock::now();
    if (now < thawed + kLag) {
      EXPECT_LT(until, frozen + kTtl);
    }
    return HasFailure() || now > thawed + kLag;
  }));
  EXPECT_GT(proxy.count(Op::multi), beats);
  EXPECT_TRUE(hold.valid());
}

TEST_F(ZkSessionLife, LossIsToldOnTimeThoughNobodyAnswers) {
  auto client = connect("ttl=1s");
  auto hold = client.lock("x").acquire().value();
  auto const token = hold.lost();
  cluster_.tell("pause all");
  auto const begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return token.stop_requested(); }, 3s));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1100ms);
  EXPECT_TRUE(eventually([&] { return !hold.valid(); }, 1s));
  cluster_.tell("resume all");
  EXPECT_TRUE(client.lock("x").acquire_for(30s));
}

/// A member may not yet have told its leader of what it answered a moment before a write; see Proof.
TEST_F(ZkSessionLife, ARequestProvesNothingToAWriteThatFollowsItClosely) {
  auto client = connect("ttl=40s&drift=0%25");
  auto const begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.inspect("x"));
  auto hold = client.lock("x").acquire().value();
  auto const until = std::chrono::steady_clock::now() + hold.valid_for();
  ASSERT_LT(std::chrono::steady_clock::now(), begun + 10s) << "too slow to tell";
  EXPECT_LT(until, begun + 40s) << "it rests on more than the opening of the session";
}

/// The longest lag that there can be: beats then come less often, and each builds on the one before all the same.
TEST_F(ZkSessionLife, AHoldStaysValidWithARaisedPingLag) {
  auto client = connect("ttl=5s&ping_lag=2s");
  auto hold = client.lock("x").acquire().value();
  auto const end = std::chrono::steady_clock::now() + 8s;
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(hold.valid());
    ASSERT_FALSE(hold.lost().stop_requested());
    std::this_thread::sleep_for(5ms);
  }
}

/// The member answers its client for another syncLimit, while the leader counts the session down.
TEST_F(ZkSessionLife, AMemberCutOffFromItsLeaderDoesNotKeepAHoldValid) {
  for (bool const burst : {false, true}) {
    int const member = cluster_.follower();
    auto client = Client::connect(at(cluster_.address(member), "ttl=1s")).value();
    auto other = Client::connect(at(cluster_.address(cluster_.leader()))).value();
    auto hold = client.lock("x").acquire().value();
    std::atomic<bool> stop{false};
    std::jthread const writer([&] {
      while (burst && !stop) (void)client.lock("y").acquire_for(100ms);
    });
    // Some beats later, among a few hundred writes or none.
    auto const over = std::chrono::steady_clock::now() + hold.valid_for();
    ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > over; }));
    ASSERT_TRUE(hold.valid());
    cluster_.tell("cut", member);
    auto next = other.lock("x").acquire_for(20s).value();
    EXPECT_FALSE(hold.valid()) << (burst ? "after a burst of writes" : "after a quiet time");
    EXPECT_TRUE(told(hold, 1s));
    stop = true;
    cluster_.tell("heal", member);
    cluster_.tell("ready");
  }
}

TEST_F(ZkSessionLife, APausedProcessWakesUpWithoutItsHold) {
  auto other = connect();
  auto worker = client_process(url("ttl=1s"));
  ASSERT_EQ(worker.ask("acquire x").substr(0, 4), "held");
  auto const fence = other.inspect("x")->front().fence;
  worker.signal(SIGSTOP);
  auto next = other.lock("x").acquire_for(20s).value();
  EXPECT_GT(next.fence(), fence);
  worker.signal(SIGCONT);
  EXPECT_EQ(worker.ask("valid x"), "invalid 0");
}

TEST_F(ZkSessionLife, AHoldSurvivesTheChangeOfMembersAndLeaders) {
  auto client = connect("ttl=10s");
  auto hold = client.lock("x").acquire().value();
  for (int i = 0; i < 2; ++i) {
    int const leader = cluster_.leader();
    cluster_.tell("kill", leader);
    cluster_.leader();
    cluster_.tell("start", leader);
  }
  EXPECT_TRUE(hold.valid());
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::busy);
  EXPECT_TRUE(hold.release());
}

TEST_F(ZkSessionLife, AnEntryRemovedByAnOperatorIsToldWithinABeat) {
  auto client = connect("ttl=3s");
  Raw raw(hosts());
  auto hold = client.lock("x").acquire().value();
  auto const directory = root_ + "/x";
  for (auto const& name : raw.children(directory)) EXPECT_EQ(raw.remove(directory + "/" + name), ZOK);
  EXPECT_TRUE(told(hold, 1500ms));
  EXPECT_FALSE(hold.valid());
  // A waiter whose entry is removed joins again.
  auto first = client.lock("x").acquire().value();
  auto second = connect("ttl=3s");
  auto waiting = second.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return raw.children(directory).size() == 2; }));
  auto const line = client.inspect("x").value();
  auto names = raw.children(directory);
  std::sort(names.begin(), names.end(),
            [](auto const& a, auto const& b) { return a.substr(a.size() - 10) < b.substr(b.size() - 10); });
  EXPECT_EQ(raw.remove(directory + "/" + names.back()), ZOK);
  EXPECT_TRUE(eventually([&] {
    auto const now = client.inspect("x").value();
    return now.size() == 2 && now[1].fence != line[1].fence;
  }));
  EXPECT_TRUE(first.release());
  EXPECT_TRUE(waiting.get().valid());
}

TEST_F(ZkSessionLife, FencesGrowAcrossLeadersRestartsAndNewDirectories) {
  Raw raw(hosts());
  Fence last;
  auto const grows = [&] {
    auto hold = connect().lock("x").acquire_for(20s).value();
    EXPECT_GT(hold.fence(), last);
    last = hold.fence();
  };
  grows();
  cluster_.tell("kill", cluster_.leader());
  grows();
  cluster_.tell("start all");
  grows();
  cluster_.tell("kill all");
  cluster_.tell("start all");
  grows();
  EXPECT_TRUE(eventually([&] { return raw.remove(root_ + "/x") != ZNOTEMPTY; }));
  grows();
}

}  // namespace
}  // namespace holdfast::test

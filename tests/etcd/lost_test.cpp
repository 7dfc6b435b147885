#include <boost/asio/use_future.hpp>
#include <future>

#include "tests/etcd/cluster.hpp"
#include "tests/etcd/proxy.hpp"

// Lost replies and late requests: a connection that is cut right at a join or a leave.

namespace holdfast::test {
namespace {

class EtcdLost : public Etcd {
 protected:
  EtcdLost() : proxy_(members().at(0)) {}

  Client through(std::string const& query) const {
    return Client::connect("etcd://" + proxy_.address() + root_ + "?" + query).value();
  }
  std::size_t in_line() { return other_.inspect("x")->size(); }
  bool comes_to(std::size_t size) {
    return eventually([&] { return in_line() == size; });
  }
  /// The late request reaches the member and is dealt with: it is a Txn like every join and leave.
  void deliver() {
    auto const txns = [] { return counted({"grpc_server_handled_total{", "grpc_method=\"Txn\""}); };
    auto const before = txns();
    proxy_.deliver();
    ASSERT_TRUE(eventually([&] { return txns() == before + 1; }));
  }

  std::vector<std::string> const join_{"@guard", "/x/"}, leave_{"/x/"};
  Proxy proxy_;
  Client other_ = connect("ttl=60s");
  Client client_ = through("ttl=10s");
};

TEST_F(EtcdLost, AJoinThatDidNotGetThroughIsSentAgain) {
  proxy_.strike_at(join_, Proxy::When::before);
  auto const hold = client_.lock("x").acquire_for(20s);
  ASSERT_TRUE(hold) << hold.error().message();
  EXPECT_TRUE(proxy_.has_struck());
  EXPECT_EQ(in_line(), 1u);
  EXPECT_EQ(other_.inspect("x")->front().fence, hold->fence());
}

TEST_F(EtcdLost, AJoinWhoseAnswerIsLostIsAdopted) {
  proxy_.strike_at(join_, Proxy::When::after);
  auto waiting = client_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(1));
  auto const made = other_.inspect("x")->front().fence;
  proxy_.cut();
  auto hold = waiting.get();
  EXPECT_EQ(hold.fence(), made);
  EXPECT_EQ(in_line(), 1u);
  EXPECT_TRUE(hold.release());
  EXPECT_EQ(in_line(), 0u);
}

TEST_F(EtcdLost, AJoinWhoseAnswerIsLostAndWhoseEntryWasRemovedIsMadeAnew) {
  proxy_.strike_at(join_, Proxy::When::after);
  auto waiting = client_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(1));
  auto const made = other_.inspect("x")->front().fence;
  etcdctl("del --prefix " + root_ + "/x/");
  proxy_.cut();
  EXPECT_GT(waiting.get().fence(), made);
}

TEST_F(EtcdLost, AWaiterWhoseJoinWasLostIsRemovedWhenNobodyWantsItAnyMore) {
  auto const held = other_.lock("x").acquire().value();
  proxy_.strike_at(join_, Proxy::When::after);
  auto waiting = std::async(std::launch::async, [&] { return client_.lock("x").acquire_for(1s).error(); });
  ASSERT_TRUE(comes_to(2));
  EXPECT_TRUE(waiting.get() == errc::unavailable) << "its deadline came while nothing was heard";
  proxy_.cut();
  EXPECT_TRUE(comes_to(1));
}

TEST_F(EtcdLost, AJoinDeliveredLateIsRefused) {
  proxy_.strike_at(join_, Proxy::When::late);
  auto hold = client_.lock("x").acquire_for(20s);
  ASSERT_TRUE(hold) << hold.error().message();
  ASSERT_TRUE(proxy_.has_struck());
  EXPECT_TRUE(hold->release());
  EXPECT_EQ(in_line(), 0u);
  deliver();
  EXPECT_EQ(in_line(), 0u) << "it was barred by the guard";
  EXPECT_TRUE(other_.lock("x").try_acquire());
}

TEST_F(EtcdLost, ALeaveThatDidNotGetThroughIsSentAgain) {
  auto hold = client_.lock("x").acquire().value();
  proxy_.strike_at(leave_, Proxy::When::before);
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(proxy_.has_struck());
  EXPECT_EQ(in_line(), 0u);
}

TEST_F(EtcdLost, ALeaveWhoseAnswerIsLostIsDone) {
  auto hold = client_.lock("x").acquire().value();
  proxy_.strike_at(leave_, Proxy::When::after);
  auto released = std::async(std::launch::async, [&] { return hold.release().has_value(); });
  ASSERT_TRUE(comes_to(0));
  auto const next = other_.lock("x").acquire_for(10s);
  proxy_.cut();
  EXPECT_TRUE(released.get());
  EXPECT_TRUE(next->valid());
  EXPECT_EQ(in_line(), 1u);
}

TEST_F(EtcdLost, ALeaveDeliveredLateRemovesNothingNewer) {
  auto hold = client_.lock("x").acquire().value();
  auto const name = hold.sequencer().entry();
  proxy_.strike_at(leave_, Proxy::When::late);
  EXPECT_TRUE(hold.release());
  ASSERT_TRUE(proxy_.has_struck());
  auto const again = client_.lock("x").acquire_for(10s).value();
  ASSERT_EQ(again.sequencer().entry(), name) << "the same name, used again";
  deliver();
  EXPECT_EQ(in_line(), 1u);
  EXPECT_TRUE(client_.check(again.sequencer()).value());
}

TEST_F(EtcdLost, ABrokenWatchIsNoRelease) {
  auto held = other_.lock("x").acquire().value();
  auto waiting = client_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(2));
  for (int i = 0; i < 3; ++i) {
    proxy_.cut();
    ASSERT_TRUE(eventually([&] { return client_.inspect("x").has_value(); })) << "connected again";
    EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  }
  EXPECT_TRUE(held.release());
  EXPECT_GT(waiting.get().fence(), held.fence());
}

TEST_F(EtcdLost, ACompactionWhileTheWatchIsBrokenIsNoReleaseAndLosesNone) {
  auto held = other_.lock("x").acquire().value();
  auto waiting = client_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(2));
  auto const compact = [&] {
    auto const now = other_.lock("elsewhere").acquire().value().fence().token();
    etcdctl("compact " + std::to_string(now));
  };
  proxy_.mute(true);
  compact();
  proxy_.cut();
  ASSERT_TRUE(eventually([&] { return client_.inspect("x").has_value(); }));
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  proxy_.mute(true);
  EXPECT_TRUE(held.release());  // and nobody is told of it by a watch any more
  compact();
  proxy_.cut();
  EXPECT_GT(waiting.get().fence(), held.fence());
}

TEST_F(EtcdLost, APredecessorThatLeftAndCameBackUnderItsNameIsNotWaitedFor) {
  auto held = other_.lock("x").acquire().value();
  auto const name = held.sequencer().entry();
  auto waiting = client_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(2));
  proxy_.mute(true);
  EXPECT_TRUE(held.release());
  auto again = other_.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(comes_to(2));
  ASSERT_TRUE(etcdctl("get --prefix --keys-only " + root_ + "/x/").find("/" + name) != std::string::npos) << "reused";
  proxy_.cut();  // all it finds afterwards is a key of that name
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_TRUE(waiting.get().release());
  EXPECT_EQ(again.get().sequencer().entry(), name);
}

TEST_F(EtcdLost, AProofCountsFromWhenItWasAskedForNotFromWhenItCame) {
  constexpr auto kLate = 300ms;
  auto client = through("ttl=6s");
  auto const hold = client.lock("x").acquire().value();
  proxy_.delay(kLate);
  for (int i = 0; i < 2; ++i) {
    auto left = hold.valid_for();
    ASSERT_TRUE(eventually([&] { return hold.valid_for() > std::exchange(left, hold.valid_for()); })) << "a renewal";
    EXPECT_LT(hold.valid_for(), 6s - 2 * kLate) << "both its answer and the confirming read's came late";
  }
}

}  // namespace
}  // namespace holdfast::test

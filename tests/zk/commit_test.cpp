#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

// Commits whose answers are lost, or that come late.

namespace holdfast::test {
namespace {

class ZkCommit : public Zk {
 protected:
  std::string value() { return other_.read(key_).value().value_or("absent"); }
  /// So few beats that every multi is a commit.
  Client client(std::string const& query = "ttl=60s") { return through(proxy_, query); }

  std::string const key_ = "/data" + root_ + "/deep/key";
  Proxy proxy_{cluster_.address(1)};
  Client other_ = connect();
};

TEST_F(ZkCommit, ThatDidNotGetThroughIsSentAgain) {
  auto mine = client();
  auto hold = mine.lock("x").acquire().value();
  proxy_.cut_at(Op::multi, Proxy::When::before);
  auto done = hold.async_commit(Commit().if_absent(key_).put(key_, "1"), boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return proxy_.was_cut(); }));
  proxy_.go_on();
  EXPECT_NO_THROW(done.get());
  EXPECT_EQ(value(), "1");
}

TEST_F(ZkCommit, WhoseAnswerIsLostIsDoneOnce) {
  auto mine = client();
  auto hold = mine.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().put(key_, "0")));
  for (int i = 1; i < 4; ++i) {
    proxy_.cut_at(Op::multi, Proxy::When::after);
    auto done = hold.async_commit(Commit().if_equals(key_, std::to_string(i - 1)).put(key_, std::to_string(i)),
                                  boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return value() == std::to_string(i); }));
    proxy_.target(cluster_.address(1 + i % 3));
    proxy_.go_on();
    EXPECT_NO_THROW(done.get());
  }
  EXPECT_EQ(value(), "3");
}

TEST_F(ZkCommit, ThatIsStillOnItsWayIsRefusedAndNothingNewerUndone) {
  int const slow = cluster_.follower(), leader = cluster_.leader();
  proxy_.target(cluster_.address(slow));
  auto mine = client("ttl=20s");
  auto hold = mine.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().put(key_, "before")));
  cluster_.tell("cut", slow);  // it gets as far as this member
  proxy_.cut_at(Op::multi, Proxy::When::after);
  auto old = hold.async_commit(Commit().put(key_, "old"), boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return proxy_.was_cut(); }));
  proxy_.target(cluster_.address(leader));
  proxy_.go_on();
  EXPECT_NO_THROW(old.get());
  EXPECT_TRUE(hold.commit(Commit().if_equals(key_, "old").put(key_, "new")));
  cluster_.tell("heal", slow);
  cluster_.tell("ready");
  // Once something passed through the slow member, so did all that it had to pass on.
  (void)Client::connect(at(cluster_.address(slow))).value().lock("y").acquire_for(20s).value();
  EXPECT_EQ(value(), "new");
}

TEST_F(ZkCommit, WhoseFateIsUnknownInTimeIsToldWhenAskedAgain) {
  auto mine = client("ttl=60s&request_timeout=1s");
  auto hold = mine.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().put(key_, "0")));
  proxy_.cut_at(Op::multi, Proxy::When::after);
  auto const commit = Commit().if_equals(key_, "0").put(key_, "1");
  EXPECT_EQ(hold.commit(commit).error(), errc::unknown_outcome);
  EXPECT_EQ(value(), "1");
  EXPECT_EQ(hold.commit(Commit().put(key_, "2")).error(), errc::unavailable) << "it waits for the one before it";
  proxy_.go_on();
  // Asked again, it may have to find a member first.
  EXPECT_TRUE(eventually([&] { return hold.commit(commit).has_value(); }));
  EXPECT_EQ(value(), "1");
}

TEST_F(ZkCommit, OfAHoldWhoseEntryWasRemovedDoesNothing) {
  auto mine = client();
  auto hold = mine.lock("x").acquire().value();
  Raw raw(hosts());
  ASSERT_EQ(raw.remove(root_ + "/x/" + hold.sequencer().entry()), ZOK);
  EXPECT_EQ(hold.commit(Commit().put(key_, "1")).error(), errc::lost);
  EXPECT_EQ(value(), "absent");
}

TEST_F(ZkCommit, IsOneRequestAndItsReceiptGoesWithTheSession) {
  auto mine = client();
  auto hold = mine.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().put(key_, "0")));
  proxy_.reset();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(hold.commit(Commit().put(key_, std::to_string(i))));
  EXPECT_EQ(proxy_.count(Op::multi), 10);
  for (Op const none : {Op::exists, Op::get, Op::sync, Op::create}) EXPECT_EQ(proxy_.count(none), 0);
  Raw raw(hosts());
  auto const receipts = [&] {
    auto const names = raw.children(root_);
    return std::count_if(names.begin(), names.end(), [](auto const& name) { return name.starts_with("@commit-"); });
  };
  EXPECT_EQ(receipts(), 1);
  EXPECT_EQ(other_.names().value(), std::vector<std::string>{"x"});
  EXPECT_TRUE(mine.close());
  EXPECT_TRUE(eventually([&] { return receipts() == 0; }));
}

TEST_F(ZkCommit, OfAKeyThatIsNoPathIsRefusedBeforeItIsSent) {
  auto mine = client();
  auto hold = mine.lock("x").acquire().value();
  for (std::string const bad : {"a", "/", "/a/", "//a", "/a//b", "/a/../b", "/.", "/a\nb", "/a/."}) {
    EXPECT_EQ(hold.commit(Commit().put(bad, "x")).error(), errc::invalid_argument) << bad;
    EXPECT_EQ(hold.commit(Commit().if_absent(bad)).error(), errc::invalid_argument) << bad;
  }
  EXPECT_EQ(mine.read("a").error(), errc::invalid_argument);
  ASSERT_TRUE(hold.commit(Commit().put(key_, "1")));
  auto const parent = key_.substr(0, key_.rfind('/'));
  auto const refused = hold.commit(Commit().erase(parent));
  EXPECT_EQ(refused.error(), errc::invalid_argument) << refused.error().message();
  EXPECT_NE(refused.error().message().find(parent), std::string::npos);
  EXPECT_TRUE(hold.valid());
}

}  // namespace
}  // namespace holdfast::test

#include <boost/asio/use_future.hpp>
#include <future>

#include "tests/conformance/place.hpp"

// Commits: writes to keys of the user's own, done only while the lock is held.

namespace holdfast::test {
namespace {

/// Keys of this test alone, outside the place where its locks are.
class Keys {
 public:
  explicit Keys(std::string const& name) : root_("/data-" + name) {}
  std::string operator()(std::string const& key) const { return root_ + "/" + key; }

 private:
  std::string root_;
};

std::string value_of(Client const& client, std::string const& key) {
  auto const value = client.read(key);
  if (!value) return "error: " + value.error().message();
  return value->value_or("absent");
}

TEST_P(Conformance, ACommitPutsAndErasesAllOfItsKeys) {
  Keys const key(name_);
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().put(key("one"), "1").put(key("deep/down/two"), std::string("2\0\xff", 3))));
  EXPECT_EQ(value_of(b, key("one")), "1");
  EXPECT_EQ(value_of(b, key("deep/down/two")), std::string("2\0\xff", 3));
  ASSERT_TRUE(hold.commit(Commit().put(key("one"), "").erase(key("deep/down/two")).erase(key("never/there"))));
  EXPECT_EQ(value_of(b, key("one")), "");
  EXPECT_EQ(value_of(b, key("deep/down/two")), "absent");
  ASSERT_TRUE(hold.commit(Commit().erase(key("one")).put(key("deep/down/two"), "again")));
  EXPECT_EQ(value_of(b, key("one")), "absent");
  EXPECT_EQ(value_of(b, key("deep/down/two")), "again");
  EXPECT_TRUE(hold.valid());
  EXPECT_TRUE(hold.release());
}

TEST_P(Conformance, AConditionThatIsNotMetWritesNothingAndNamesItsKey) {
  Keys const key(name_);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  ASSERT_TRUE(hold.commit(Commit().if_absent(key("a")).put(key("a"), "1")));
  auto const refused = [&](Commit const& commit) {
    auto const done = hold.commit(commit.conditions().empty() ? commit : Commit(commit).put(key("b"), "written"));
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error(), errc::conflict) << done.error().message();
    EXPECT_NE(done.error().message().find(key("")), std::string::npos) << done.error().message();
    EXPECT_EQ(value_of(client, key("a")), "1");
    EXPECT_EQ(value_of(client, key("b")), "absent");
  };
  refused(Commit().if_absent(key("a")));
  refused(Commit().if_absent(key("a")).put(key("a"), "2"));
  refused(Commit().if_absent(key("a")).erase(key("a")));
  refused(Commit().if_equals(key("a"), "2"));
  refused(Commit().if_equals(key("a"), "2").put(key("a"), "3"));
  refused(Commit().if_equals(key("a"), "2").erase(key("a")));
  refused(Commit().if_equals(key("c"), ""));
  refused(Commit().if_equals(key("c"), "1").put(key("c"), "2"));
  refused(Commit().if_equals(key("a"), "1").if_equals(key("c"), ""));
  EXPECT_TRUE(hold.commit(Commit().if_equals(key("a"), "1").put(key("a"), "2").if_absent(key("none/c"))));
  EXPECT_EQ(value_of(client, key("a")), "2");
  EXPECT_EQ(value_of(client, key("none/c")), "absent");
  EXPECT_TRUE(hold.commit(Commit().if_equals(key("a"), "2").erase(key("a"))));
  EXPECT_TRUE(hold.commit(Commit().if_absent(key("a")).erase(key("a")).if_absent(key("b"))));
  EXPECT_EQ(value_of(client, key("a")), "absent");
}

TEST_P(Conformance, ACommitWithoutWritesTellsWhetherTheHoldStillStands) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  EXPECT_TRUE(hold.commit(Commit()));
}

TEST_P(Conformance, CommitsOfOneHoldAreCarriedOutInOrder) {
  Keys const key(name_);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  std::vector<std::future<void>> done;
  done.push_back(hold.async_commit(Commit().if_absent(key("n")).put(key("n"), "0"), boost::asio::use_future));
  for (int i = 1; i < 30; ++i)
    done.push_back(hold.async_commit(
        Commit().if_equals(key("n"), std::to_string(i - 1)).put(key("n"), std::to_string(i)), boost::asio::use_future));
  for (auto& each : done) EXPECT_NO_THROW(each.get());
  EXPECT_EQ(value_of(client, key("n")), "29");
}

TEST_P(Conformance, HoldsOfManyLocksCommitAtTheSameTime) {
  Keys const key(name_);
  auto client = connect();
  std::vector<Hold> holds;
  std::vector<std::future<void>> done;
  for (int i = 0; i < 40; ++i) holds.push_back(client.lock("x" + std::to_string(i)).acquire().value());
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < holds.size(); ++i)
      done.push_back(
          holds[i].async_commit(Commit().put(key(std::to_string(i)), std::to_string(round)), boost::asio::use_future));
  for (auto& each : done) EXPECT_NO_THROW(each.get());
  for (std::size_t i = 0; i < holds.size(); ++i) EXPECT_EQ(value_of(client, key(std::to_string(i))), "2");
}

/// Counting by reading and writing under the lock, in many places: none is lost.
TEST_P(Conformance, WhatIsReadAndCommittedUnderTheLockIsNeverLost) {
  Keys const key(name_);
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([&] {
      auto client = connect();
      for (int round = 0; round < 10; ++round) {
        auto hold = client.lock("counter").acquire().value();
        auto const before = client.read(key("count")).value().value_or("0");
        EXPECT_TRUE(hold.commit(Commit().put(key("count"), std::to_string(std::stoi(before) + 1))));
      }
    });
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(value_of(connect(), key("count")), "40");
}

TEST_P(Conformance, AReleasedHoldThatCommittedHandsOverAndItsKeysStay) {
  Keys const key(name_);
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  auto next = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(hold.commit(Commit().put(key("k"), "a")));
  EXPECT_TRUE(hold.release());
  auto mine = next.get();
  EXPECT_EQ(value_of(b, key("k")), "a");
  ASSERT_TRUE(mine.commit(Commit().put(key("k"), "b")));
  ASSERT_TRUE(b.close());
  EXPECT_EQ(value_of(a, key("k")), "b");
}

/// What was begun under a hold is over before the next one of the same client begins, though that takes no round trip.
TEST_P(Conformance, ACommitUnderWayWhenItsHoldGoesNeverComesAfterTheNextHoldersOwn) {
  Keys const key(name_);
  auto client = connect();
  for (int round = 0; round < 20; ++round) {
    auto hold = std::make_optional(client.lock("x").acquire().value());
    auto next = client.lock("x").async_acquire({}, boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 2; }));
    std::promise<error_code> told;
    hold->async_commit(Commit().put(key("k"), "old"), [&](error_code ec) { told.set_value(ec); });
    hold.reset();
    auto mine = next.get();
    ASSERT_TRUE(mine.commit(Commit().put(key("k"), "new")));
    auto const ec = told.get_future().get();
    EXPECT_TRUE(!ec || ec == errc::lost) << ec.message();
    EXPECT_EQ(value_of(client, key("k")), "new");
  }
}

TEST_P(Conformance, ALostHoldCommitsNothing) {
  Keys const key(name_);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  auto const first = hold.async_commit(Commit().put(key("k"), "1"), boost::asio::use_future).wait_for(10s);
  ASSERT_EQ(first, std::future_status::ready);
  ASSERT_TRUE(client.close());
  EXPECT_EQ(hold.commit(Commit().put(key("k"), "2")).error(), errc::closed);
  EXPECT_EQ(Hold().commit(Commit()).error(), errc::invalid_argument);
  EXPECT_EQ(value_of(connect(), key("k")), "1");
}

TEST_P(Conformance, CommitsThatCannotBeRightAreRefused) {
  Keys const key(name_);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  auto const refused = [&](Commit const& what) {
    auto const done = hold.commit(what);
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error(), errc::invalid_argument) << done.error().message();
  };
  refused(Commit().put("", "x"));
  Commit many;
  for (int i = 0; i < 101; ++i) many.put(key(std::to_string(i)), "x");
  refused(many);
  refused(Commit().put(key("big"), std::string(1'000'001, 'x')));
  EXPECT_EQ(client.read("").error(), errc::invalid_argument);
  if (!cluster_url().empty()) refused(Commit().put("/" + name_ + "/x/entry", "x"));
  EXPECT_EQ(value_of(client, key("big")), "absent");
  EXPECT_TRUE(hold.valid());
}

/// Without a root of their own the locks are at the top: a key there would stand in somebody's line.
TEST_P(Conformance, WhereTheLocksHaveNoRootNoPathIsAKey) {
  if (cluster_url().empty()) GTEST_SKIP() << "file: and memory: always have a root";
  auto client = Client::connect(cluster_url()).value();
  auto hold = client.lock(name_).acquire().value();
  EXPECT_EQ(hold.commit(Commit().put("/" + name_ + "/key", "x")).error(), errc::invalid_argument);
  EXPECT_EQ(client.inspect(name_)->size(), 1U);
}

TEST_P(Conformance, TheLargestCommitIsTaken) {
  Keys const key(name_);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  Commit commit;
  for (int i = 0; i < 100; ++i) commit.put(key("many/" + std::to_string(i)), std::string(9'900, 'x'));
  auto const done = hold.commit(commit);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_EQ(value_of(client, key("many/99")).size(), 9'900U);
}

// ---- once in the whole fleet

TEST_P(Conformance, WhatIsToBeDoneOnceIsDoneByOneOfMany) {
  std::atomic<int> runs{0}, ours{0};
  std::vector<std::thread> hosts;
  for (int i = 0; i < 6; ++i)
    hosts.emplace_back([&, i] {
      auto client = connect("label=host-" + std::to_string(i));
      auto const outcome = client.once("report", "2026-11-18").run({}, [&](Hold& hold) -> Result<void> {
        EXPECT_TRUE(hold.valid());
        if (++runs == 1) return make_error_code(errc::unavailable);  // the first one fails, and the next one tries
        return {};
      });
      if (!outcome) return;
      ours += outcome->ours;
      EXPECT_TRUE(outcome->record.by.starts_with("host-"));
      EXPECT_GT(outcome->record.fence, Fence());
    });
  for (auto& host : hosts) host.join();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(ours, 1);

  auto client = connect();
  auto const holder = client.lock("report").acquire().value();
  auto const before = std::chrono::system_clock::now() - client.once("report", "2026-11-18").done().value()->at;
  EXPECT_LT(before, 60s);
  EXPECT_GT(before, -1ms);
  auto const later = client.once("report", "2026-11-18").run({}, [](Hold&) -> Result<void> {
    ADD_FAILURE() << "done twice";
    return {};
  });
  EXPECT_FALSE(later->ours) << "told without the lock, which somebody has";
  EXPECT_FALSE(client.once("report", "2026-11-19").done().value()) << "another key is another matter";
  EXPECT_FALSE(client.once("other", "2026-11-18").done().value());
  EXPECT_EQ(client.names().value(), std::vector<std::string>{"report"}) << "records are no locks";
}

TEST_P(Conformance, OnlyAHoldOfItsLockCanRecordThatSomethingWasDone) {
  auto client = connect();
  auto const once = client.once("a/b", "k/1 2");
  auto hold = client.lock("a/b").acquire().value(), other = client.lock("a").acquire().value();
  EXPECT_EQ(once.record(other).error(), errc::invalid_argument);
  auto stranger = connect();
  auto third = stranger.lock("c").acquire().value();
  EXPECT_EQ(client.once("c", "k").record(third).error(), errc::invalid_argument) << "of another client";
  auto empty = Hold();
  EXPECT_EQ(once.record(empty).error(), errc::invalid_argument);
  EXPECT_EQ(client.once("", "k").done().error(), errc::invalid_argument);
  EXPECT_EQ(client.once("a", "").done().error(), errc::invalid_argument);
  EXPECT_FALSE(once.done().value());
  ASSERT_TRUE(once.record(hold));
  EXPECT_EQ(once.done().value()->fence, hold.fence());
  EXPECT_EQ(once.record(hold).error(), errc::conflict);
}

TEST_P(Conformance, AsyncCommitOfAnEmptyHoldOrAClosedClientIsAnswered) {
  std::promise<error_code> empty, closed;
  Hold().async_commit(Commit(), [&](error_code ec) { empty.set_value(ec); });
  EXPECT_EQ(empty.get_future().get(), errc::invalid_argument);
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  ASSERT_TRUE(client.close());
  hold.async_commit(Commit(), [&](error_code ec) { closed.set_value(ec); });
  EXPECT_EQ(closed.get_future().get(), errc::closed);
}

}  // namespace
}  // namespace holdfast::test

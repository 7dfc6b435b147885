#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/gate.hpp>
#include <string>
#include <thread>
#include <vector>

// What every store with fences has to pass. A place is a fresh database, and what the store's calls are named:
//
//   using Connection, Gate, FencedTable
//   Connection* connect()                       another connection to it, closed with the place
//   static constexpr begin                      how a guarded transaction begins
//   static Result<void> make_schema(c), guard(c, resource, fence)
//   static std::string ask(c, sql)              the first column of the first row; "" if there is none
//   static void forget(c)                       what a pool does between two users of a connection

namespace holdfast::test {

template <class Place>
class Store : public testing::Test {
 protected:
  Store() {
    EXPECT_TRUE(Place::make_schema(here_));
    ask("create table things (name text primary key, value integer, remark text)");
    EXPECT_TRUE(things_.add_columns(here_));
  }

  std::string ask(std::string const& sql) { return Place::ask(here_, sql); }
  std::string value() { return ask("select value from things where name = 'x' and not fence_erased"); }

  Place place_;
  typename Place::Connection* here_ = place_.connect();
  typename Place::FencedTable things_{"things", "name"};
};

TYPED_TEST_SUITE_P(Store);

template <class Outcome>
void expect_refused(Outcome const& outcome, std::vector<std::string> const& parts) {
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), errc::stale_fence) << outcome.error().message();
  for (auto const& part : parts)
    EXPECT_NE(outcome.error().message().find(part), std::string::npos) << outcome.error().message();
}

TYPED_TEST_P(Store, AGateRefusesALowerFenceAndNamesBoth) {
  typename TypeParam::Gate gate(this->here_);
  ASSERT_TRUE(gate.claim("x", {0, 12}));
  EXPECT_TRUE(gate.admit("x", {0, 12})) << "one holder writes many times";
  expect_refused(gate.admit("x", {0, 11}), {"'x'", "0.11", "0.12", "fence_epoch"});
  expect_refused(gate.claim("x", {0, 11}), {"'x'", "0.11", "0.12"});
  EXPECT_TRUE(gate.claim("y", {0, 1})) << "resources are separate";
  ASSERT_TRUE(gate.admit("x", {1, 2})) << "a higher epoch is above every token";
  typename TypeParam::Gate elsewhere(this->place_.connect());
  expect_refused(elsewhere.admit("x", {0, 13}), {"1.2", "0.13"});
}

TYPED_TEST_P(Store, AGateChecksASharedNumberAndIsNotRaisedByIt) {
  typename TypeParam::Gate gate(this->here_);
  EXPECT_TRUE(gate.check("x", {0, 3})) << "no writer was ever here";
  ASSERT_TRUE(gate.claim("x", {0, 5}));
  EXPECT_TRUE(gate.check("x", {0, 9}));
  EXPECT_TRUE(gate.admit("x", {0, 5})) << "readers raise nothing";
  expect_refused(gate.check("x", {0, 4}), {"0.4", "0.5"});
}

TYPED_TEST_P(Store, AFenceThatDoesNotFitIsRefusedAndNotBent) {
  typename TypeParam::Gate gate(this->here_);
  constexpr auto kMost = std::uint64_t{1} << 63;
  ASSERT_TRUE(gate.claim("x", {0, kMost - 1}));
  expect_refused(gate.claim("x", {0, kMost - 2}), {"0.9223372036854775807"});
  for (Fence const fence : {Fence(0, kMost), Fence(kMost, 1)}) {
    EXPECT_EQ(gate.claim("x", fence).error(), errc::invalid_argument);
    EXPECT_EQ(gate.check("x", fence).error(), errc::invalid_argument);
    EXPECT_EQ(this->things_.upsert(this->here_, "x", {}, fence).error(), errc::invalid_argument);
  }
}

TYPED_TEST_P(Store, AGuardNeedsATransaction) {
  EXPECT_EQ(TypeParam::guard(this->here_, "x", {0, 1}).error(), errc::invalid_argument);
}

TYPED_TEST_P(Store, AGuardedTransactionIsRefusedAfterAHigherOne) {
  auto* const other = this->place_.connect();
  TypeParam::ask(other, TypeParam::begin);
  ASSERT_TRUE(TypeParam::guard(other, "x", {0, 2}));
  TypeParam::ask(other, "commit");
  this->ask(TypeParam::begin);
  expect_refused(TypeParam::guard(this->here_, "x", {0, 1}), {"0.1", "0.2"});
  this->ask("rollback");
}

TYPED_TEST_P(Store, AGuardThatIsRolledBackLeavesNoMark) {
  this->ask(TypeParam::begin);
  ASSERT_TRUE(TypeParam::guard(this->here_, "x", {0, 2}));
  this->ask("rollback");
  typename TypeParam::Gate gate(this->here_);
  EXPECT_TRUE(gate.claim("x", {0, 1}));
}

TYPED_TEST_P(Store, EveryStaleWriteOfARowIsRefusedAndChangesNothing) {
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "2"}, {"remark", "new"}}, {0, 2}));
  Fence const old{0, 1};
  expect_refused(this->things_.claim(this->here_, "x", old), {"things/x", "0.1", "0.2"});
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "1"}}, old), {"things/x", "0.1", "0.2"});
  expect_refused(this->things_.update(this->here_, "x", {{"value", "1"}}, old), {"things/x", "0.1", "0.2"});
  expect_refused(this->things_.erase(this->here_, "x", old), {"things/x", "0.1", "0.2"});
  EXPECT_EQ(this->value(), "2");
  EXPECT_EQ(this->ask("select fence_token from things"), "2");
}

TYPED_TEST_P(Store, OneHolderWritesARowManyTimes) {
  Fence const fence{3, 7};
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "1"}, {"remark", "kept"}}, fence));
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "2"}}, fence));
  EXPECT_EQ(this->ask("select remark from things"), "kept") << "columns that are not given stay";
  EXPECT_TRUE(this->things_.update(this->here_, "x", {{"value", "3"}, {"remark", std::nullopt}}, fence).value());
  EXPECT_EQ(this->value(), "3");
  EXPECT_EQ(this->ask("select count(*) from things where remark is null"), "1");
  EXPECT_EQ(this->ask("select fence_epoch from things"), "3");
}

TYPED_TEST_P(Store, AnErasedRowIsNotBroughtBackByALateWrite) {
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "1"}}, {0, 1}));
  ASSERT_TRUE(this->things_.erase(this->here_, "x", {0, 2}));
  EXPECT_EQ(this->value(), "");
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "1"}}, {0, 1}), {"0.2"});
  EXPECT_EQ(this->value(), "");
  EXPECT_FALSE(this->things_.update(this->here_, "x", {{"value", "3"}}, {0, 3}).value()) << "there is no such row";
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "3"}}, {0, 3}));
  EXPECT_EQ(this->value(), "3");
}

TYPED_TEST_P(Store, ErasingWhatIsNotThereKeepsLateWritesOutAsWell) {
  ASSERT_TRUE(this->things_.erase(this->here_, "x", {0, 2}));
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "1"}}, {0, 1}), {"0.2"});
  EXPECT_EQ(this->value(), "");
}

TYPED_TEST_P(Store, AnUpdateSaysThatThereIsNoRow) {
  EXPECT_FALSE(this->things_.update(this->here_, "x", {{"value", "1"}}, {0, 1}).value());
}

TYPED_TEST_P(Store, WithoutAClaimAnOlderWriteLandsBetweenReadAndWrite) {
  Fence const a{0, 1}, b{0, 2};
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "10"}}, a));
  auto const next = std::to_string(std::stoi(this->value()) + 1);  // what both A and B compute
  EXPECT_TRUE(this->things_.upsert(this->here_, "x", {{"value", next}}, a)) << "the row has not heard of B";
  EXPECT_TRUE(this->things_.upsert(this->here_, "x", {{"value", next}}, b));
  EXPECT_EQ(this->value(), "11") << "two accepted additions, and one of them is gone";
}

TYPED_TEST_P(Store, AClaimBeforeTheReadKeepsOlderWritesOut) {
  Fence const a{0, 1}, b{0, 2};
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "10"}}, a));
  ASSERT_TRUE(this->things_.claim(this->here_, "x", b));
  EXPECT_EQ(this->value(), "10") << "a claim changes nothing but the mark";
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "11"}}, a), {"0.1", "0.2"});
  EXPECT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "11"}}, b));
}

TYPED_TEST_P(Store, ARowThatDoesNotExistCanBeClaimed) {
  ASSERT_TRUE(this->things_.claim(this->here_, "x", {0, 2}));
  EXPECT_EQ(this->value(), "");
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "1"}}, {0, 1}), {"0.2"});
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "2"}}, {0, 2}));
  EXPECT_EQ(this->value(), "2");
}

TYPED_TEST_P(Store, NamesAndValuesAreNeverReadAsSql) {
  std::string const odd = R"(o'dd "na;me" \ ü -- /*)";
  this->ask(R"(create table "select ""from""; --" ("the ""key""" text primary key, "or'der" text))");
  typename TypeParam::FencedTable const table(R"(select "from"; --)", R"(the "key")");
  ASSERT_TRUE(table.add_columns(this->here_));
  ASSERT_TRUE(table.upsert(this->here_, odd, {{"or'der", odd}}, {0, 1}));
  EXPECT_TRUE(table.update(this->here_, odd, {{"or'der", odd + "!"}}, {0, 1}).value());
  EXPECT_EQ(this->ask(R"(select "or'der" from "select ""from""; --")"), odd + "!");
  typename TypeParam::Gate gate(this->here_);
  EXPECT_TRUE(gate.claim(odd, {0, 2}));
  expect_refused(gate.claim(odd, {0, 1}), {"0.2"});
}

TYPED_TEST_P(Store, WhatIsMadeTwiceIsMadeOnce) {
  ASSERT_TRUE(this->things_.upsert(this->here_, "x", {{"value", "2"}}, {0, 2}));
  EXPECT_TRUE(TypeParam::make_schema(this->here_));
  EXPECT_TRUE(this->things_.add_columns(this->here_));
  expect_refused(this->things_.upsert(this->here_, "x", {{"value", "1"}}, {0, 1}), {"0.2"});
}

TYPED_TEST_P(Store, AMissingTableIsNamed) {
  typename TypeParam::FencedTable const none("nothing_here", "name");
  auto const refused = none.upsert(this->here_, "x", {}, {0, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::invalid_argument);
  EXPECT_NE(refused.error().message().find("nothing_here"), std::string::npos) << refused.error().message();
  EXPECT_NE(none.add_columns(this->here_).error().message().find("nothing_here"), std::string::npos);
  EXPECT_EQ(TypeParam::make_schema(nullptr).error(), errc::invalid_argument) << "no connection";
}

TYPED_TEST_P(Store, WorkersTakeTurnsOnOneConnectionOfAPool) {
  // The workers' fences; each comes back once more when its connection has been through the others' hands.
  std::vector<std::uint64_t> const turns = {1, 2, 1, 3, 2, 1, 3};
  std::uint64_t highest = 0;
  for (auto const token : turns) {
    bool const current = token >= highest;
    highest = std::max(highest, token);
    Fence const fence{0, token};
    EXPECT_EQ(this->things_.upsert(this->here_, "x", {{"value", std::to_string(token)}}, fence).has_value(), current);
    TypeParam::forget(this->here_);
    this->ask(TypeParam::begin);
    EXPECT_EQ(TypeParam::guard(this->here_, "x", fence).has_value(), current);
    this->ask(current ? "commit" : "rollback");
    TypeParam::forget(this->here_);
    EXPECT_EQ(this->value(), std::to_string(highest));
  }
}

TYPED_TEST_P(Store, GuardedTransactionsOfManyWorkersFollowUponEachOther) {
  constexpr std::uint64_t kWorkers = 4, kEach = 40;
  this->ask("create table journal (at integer, fence integer)");
  this->ask("insert into journal values (0, 0)");
  std::atomic<std::uint64_t> committed = 0;
  std::vector<typename TypeParam::Connection*> connections;
  for (std::uint64_t i = 0; i < kWorkers; ++i) connections.push_back(this->place_.connect());
  {
    std::vector<std::jthread> workers;
    for (std::uint64_t first = 1; first <= kWorkers; ++first)
      workers.emplace_back([&, first] {
        auto* const here = connections[first - 1];
        for (auto token = first; token <= kWorkers * kEach; token += kWorkers) {
          TypeParam::ask(here, TypeParam::begin);
          auto const guarded = TypeParam::guard(here, "journal", {0, token});
          if (!guarded) {
            EXPECT_EQ(guarded.error(), errc::stale_fence) << guarded.error().message();
            TypeParam::ask(here, "rollback");
            continue;
          }
          // Read, then write: were two in here at once, they would read the same.
          auto const last = std::stoi(TypeParam::ask(here, "select max(at) from journal"));
          TypeParam::ask(
              here, "insert into journal values (" + std::to_string(last + 1) + ", " + std::to_string(token) + ")");
          TypeParam::ask(here, "commit");
          ++committed;
        }
      });
  }
  EXPECT_GE(committed, 1U);
  EXPECT_EQ(this->ask("select max(at) from journal"), std::to_string(committed)) << "no two read the same";
  EXPECT_EQ(this->ask("select count(*) from journal a, journal b where a.at < b.at and a.fence > b.fence"), "0")
      << "no fence came after a higher one";
}

TYPED_TEST_P(Store, ManyWorkersNeverSetARowBack) {
  constexpr std::uint64_t kWorkers = 4, kEach = 40;
  std::vector<typename TypeParam::Connection*> connections;
  for (std::uint64_t i = 0; i < kWorkers; ++i) connections.push_back(this->place_.connect());
  std::atomic<bool> set_back = false;
  {
    std::vector<std::jthread> workers;
    for (std::uint64_t first = 1; first <= kWorkers; ++first)
      workers.emplace_back([&, first] {
        auto* const here = connections[first - 1];
        for (auto token = first; token <= kWorkers * kEach; token += kWorkers) {
          auto const written = this->things_.upsert(here, "x", {{"value", std::to_string(token)}}, {0, token});
          if (!written) {
            EXPECT_EQ(written.error(), errc::stale_fence) << written.error().message();
          }
          auto const now = std::stoull(TypeParam::ask(here, "select value from things where name = 'x'"));
          if (now < token) set_back = true;  // refused or not: something at least as new is there
        }
      });
  }
  EXPECT_FALSE(set_back);
  EXPECT_EQ(this->value(), std::to_string(kWorkers * kEach));
}

REGISTER_TYPED_TEST_SUITE_P(Store, AGateRefusesALowerFenceAndNamesBoth, AGateChecksASharedNumberAndIsNotRaisedByIt,
                            AFenceThatDoesNotFitIsRefusedAndNotBent, AGuardNeedsATransaction,
                            AGuardedTransactionIsRefusedAfterAHigherOne, AGuardThatIsRolledBackLeavesNoMark,
                            EveryStaleWriteOfARowIsRefusedAndChangesNothing, OneHolderWritesARowManyTimes,
                            AnErasedRowIsNotBroughtBackByALateWrite, ErasingWhatIsNotThereKeepsLateWritesOutAsWell,
                            AnUpdateSaysThatThereIsNoRow, WithoutAClaimAnOlderWriteLandsBetweenReadAndWrite,
                            AClaimBeforeTheReadKeepsOlderWritesOut, ARowThatDoesNotExistCanBeClaimed,
                            NamesAndValuesAreNeverReadAsSql, WhatIsMadeTwiceIsMadeOnce, AMissingTableIsNamed,
                            WorkersTakeTurnsOnOneConnectionOfAPool, GuardedTransactionsOfManyWorkersFollowUponEachOther,
                            ManyWorkersNeverSetARowBack);

}  // namespace holdfast::test

#include <libpq-fe.h>
#include <sys/socket.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <holdfast/postgres.hpp>
#include <memory>

#include "tests/eventually.hpp"
#include "tests/stores/contract.hpp"

namespace holdfast::test {
namespace {

/// A schema of its own on the server that this test runs beside.
class PostgresPlace {
 public:
  using Connection = PGconn;
  using Gate = postgres::Gate;
  using FencedTable = postgres::FencedTable;
  static constexpr char begin[] = "begin";

  PostgresPlace() {
    static int count = 0;
    schema_ = "place" + std::to_string(++count);
    auto* const here = connect();
    ask(here, "drop schema if exists " + schema_ + " cascade");
    ask(here, "create schema " + schema_);
  }
  ~PostgresPlace() {
    for (auto* const each : connections_) PQfinish(each);
  }
  PostgresPlace(PostgresPlace const&) = delete;

  PGconn* connect() {
    char const* const server = std::getenv("HOLDFAST_TEST_POSTGRES");
    if (server == nullptr) {
      ADD_FAILURE() << "run this beside a server: tests/stores/server run -- PROGRAM";
      std::exit(1);
    }
    auto* const made = PQconnectdb((std::string(server) + " options='-c search_path=" + schema_ + "'").c_str());
    EXPECT_EQ(PQstatus(made), CONNECTION_OK) << PQerrorMessage(made);
    PQsetNoticeProcessor(
        made, [](void*, char const*) {}, nullptr);
    return connections_.emplace_back(made);
  }

  static Result<void> make_schema(PGconn* connection) { return postgres::make_schema(connection); }
  static Result<void> guard(PGconn* connection, std::string_view resource, Fence fence) {
    return postgres::guard(connection, resource, fence);
  }

  static std::string ask(PGconn* connection, std::string const& sql) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const answer(PQexec(connection, sql.c_str()), PQclear);
    auto const status = PQresultStatus(answer.get());
    if (status == PGRES_COMMAND_OK) return PQcmdStatus(answer.get());
    EXPECT_EQ(status, PGRES_TUPLES_OK) << sql << ": " << PQerrorMessage(connection);
    return PQntuples(answer.get()) == 0 ? "" : PQgetvalue(answer.get(), 0, 0);
  }

  /// What a pool does: everything that the session had is gone.
  static void forget(PGconn* connection) {
    EXPECT_EQ(ask(connection, "select count(*) from pg_prepared_statements"), "0");
    EXPECT_EQ(ask(connection, "select count(*) from pg_locks where locktype = 'advisory'"), "0");
    ask(connection, "discard all");
  }

 private:
  std::string schema_;
  std::vector<PGconn*> connections_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Postgres, Store, PostgresPlace);

class Postgres : public Store<PostgresPlace> {
 protected:
  static std::string run(PGconn* connection, std::string const& sql) { return PostgresPlace::ask(connection, sql); }

  /// Whether that connection is held up by a lock of another.
  bool waits(PGconn* connection) {
    return ask("select count(*) from pg_locks where not granted and pid = " +
               std::to_string(PQbackendPID(connection))) != "0";
  }

  PGconn* a_ = place_.connect();
  PGconn* b_ = place_.connect();
};

TEST_F(Postgres, ARefusedTransactionCannotBeCommittedByWhoForgetsToLook) {
  ASSERT_TRUE(postgres::Gate(b_).claim("x", {0, 2}));
  run(a_, "begin");
  EXPECT_EQ(postgres::guard(a_, "x", {0, 1}).error(), errc::stale_fence);
  PQclear(PQexec(a_, "insert into things values ('x', 1)"));
  EXPECT_EQ(run(a_, "commit"), "ROLLBACK");
  EXPECT_EQ(ask("select count(*) from things"), "0");

  ASSERT_TRUE(things_.upsert(b_, "x", {{"value", "2"}}, {0, 2}));
  run(a_, "begin");
  EXPECT_EQ(things_.upsert(a_, "x", {{"value", "1"}}, {0, 1}).error(), errc::stale_fence);
  PQclear(PQexec(a_, "insert into things values ('y', 1)"));
  EXPECT_EQ(run(a_, "commit"), "ROLLBACK");
  EXPECT_EQ(ask("select count(*) from things"), "1");
}

TEST_F(Postgres, AGuardedTransactionKeepsAHigherFenceWaitingUntilItEnds) {
  run(a_, "begin");
  ASSERT_TRUE(postgres::guard(a_, "x", {0, 1}));
  auto claimed = std::async(std::launch::async, [&] { return postgres::Gate(b_).claim("x", {0, 2}); });
  ASSERT_TRUE(eventually([&] { return waits(b_); }));
  run(a_, "insert into things values ('x', 1)");
  run(a_, "commit");
  EXPECT_TRUE(claimed.get());
  EXPECT_EQ(run(b_, "select value from things"), "1") << "whoever claims sees what was written before";
  run(a_, "begin");
  EXPECT_EQ(postgres::guard(a_, "x", {0, 1}).error(), errc::stale_fence);
  run(a_, "rollback");
}

TEST_F(Postgres, ALockTimeoutIsBusyAndHasItsSqlstate) {
  run(a_, "begin");
  ASSERT_TRUE(postgres::guard(a_, "x", {0, 1}));
  run(b_, "begin; set local lock_timeout = '50ms'");
  auto const refused = postgres::guard(b_, "x", {0, 2});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::busy);
  EXPECT_NE(refused.error().message().find("SQLSTATE 55P03"), std::string::npos) << refused.error().message();
  EXPECT_EQ(run(b_, "rollback"), "ROLLBACK");
  run(a_, "rollback");
}

/// A write that waited for a newer one to commit: its snapshot is older than what it then meets.
TEST_F(Postgres, AWriteThatWaitedForANewerOneIsRefused) {
  std::vector<std::function<bool(Fence)>> const writes = {
      [&](Fence late) {
        return things_.upsert(a_, "x", {{"value", "1"}}, late).has_value();
      },
      [&](Fence late) {
        return things_.update(a_, "x", {{"value", "1"}}, late).has_value();
      },
      [&](Fence late) { return things_.erase(a_, "x", late).has_value(); },
      [&](Fence late) { return things_.claim(a_, "x", late).has_value(); }};
  std::uint64_t token = 1;
  ASSERT_TRUE(things_.upsert(here_, "x", {{"value", "0"}}, {0, token}));
  for (auto const& write : writes) {
    Fence const late{0, token};
    run(b_, "begin");
    ASSERT_TRUE(things_.upsert(b_, "x", {{"value", "2"}}, {0, ++token}));
    auto written = std::async(std::launch::async, write, late);
    ASSERT_TRUE(eventually([&] { return waits(a_); }));
    run(b_, "commit");
    EXPECT_FALSE(written.get()) << token;
    EXPECT_EQ(value(), "2") << token;
  }
}

TEST_F(Postgres, AnInsertThatWaitedForTheRowsErasureIsRefused) {
  run(b_, "begin");
  ASSERT_TRUE(things_.erase(b_, "x", {0, 2}));
  auto written = std::async(std::launch::async, [&] {
    return things_.upsert(a_, "x", {{"value", "1"}}, {0, 1}).has_value();
  });
  ASSERT_TRUE(eventually([&] { return waits(a_); }));
  run(b_, "commit");
  EXPECT_FALSE(written.get());
  EXPECT_EQ(value(), "");
}

class Isolation : public Postgres, public testing::WithParamInterface<std::string> {
 protected:
  void begin(PGconn* connection) const { run(connection, "begin isolation level " + GetParam()); }
  bool snapshots() const { return GetParam() != "read committed"; }

  /// Fence 1, in a transaction that began earlier and is not yet committed.
  void older_write_begins() {
    run(a_, "begin");
    ASSERT_TRUE(postgres::guard(a_, "x", {0, 1}));
    run(a_, "insert into things values ('x', 1)");
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, Isolation, testing::Values("read committed", "repeatable read", "serializable"),
                         [](auto const& level) { return level.param.substr(0, level.param.find(' ')); });

TEST_P(Isolation, AStaleTransactionIsRefused) {
  ASSERT_TRUE(postgres::Gate(b_).claim("x", {0, 2}));
  begin(a_);
  EXPECT_EQ(postgres::guard(a_, "x", {0, 1}).error(), errc::stale_fence);
  PQclear(PQexec(a_, "insert into things values ('x', 1)"));
  EXPECT_EQ(run(a_, "commit"), "ROLLBACK");
}

// The guard is first in its transaction, and waits for an older one that writes. With a lock alone (select ... for
// update) it would then be let through with a snapshot from before that write, and read what is no longer so.
TEST_P(Isolation, AGuardThatWaitedForAnOlderWriteReadsItOrIsBusy) {
  ASSERT_TRUE(postgres::Gate(a_).claim("x", {0, 1}));
  older_write_begins();
  begin(b_);
  auto guarded = std::async(std::launch::async, [&] { return postgres::guard(b_, "x", {0, 2}); });
  ASSERT_TRUE(eventually([&] { return waits(b_); }));
  run(a_, "commit");
  auto const outcome = guarded.get();
  if (snapshots()) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error(), errc::busy);
    EXPECT_NE(outcome.error().message().find("SQLSTATE 40001"), std::string::npos) << outcome.error().message();
    run(b_, "rollback");
    begin(b_);
    ASSERT_TRUE(postgres::guard(b_, "x", {0, 2})) << "done again, it succeeds";
  } else {
    ASSERT_TRUE(outcome);
  }
  EXPECT_EQ(run(b_, "select value from things"), "1");
  run(b_, "commit");
}

TEST_P(Isolation, AGuardAfterAReadThatIsNoLongerSoIsBusyWhereTheReadIsKept) {
  begin(b_);
  EXPECT_EQ(run(b_, "select count(*) from things"), "0");
  older_write_begins();
  run(a_, "commit");
  auto const outcome = postgres::guard(b_, "x", {0, 2});
  EXPECT_EQ(outcome.has_value(), !snapshots());
  if (snapshots()) {
    EXPECT_EQ(outcome.error(), errc::busy) << outcome.error().message();
  }
  run(b_, "rollback");
}

TEST_P(Isolation, ARowWrittenSinceTheSnapshotIsBusyOrRefusedAndNeverASuccess) {
  ASSERT_TRUE(things_.upsert(here_, "x", {{"value", "0"}}, {0, 1}));
  begin(a_);
  run(a_, "select count(*) from things");
  ASSERT_TRUE(things_.upsert(b_, "x", {{"value", "2"}}, {0, 2}));
  auto const late = things_.update(a_, "x", {{"value", "1"}}, {0, 1});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), snapshots() ? errc::busy : errc::stale_fence) << late.error().message();
  EXPECT_EQ(run(a_, "commit"), "ROLLBACK");
  EXPECT_EQ(value(), "2");
}

TEST_F(Postgres, TheSchemaMayBeMadeByManyAtOnce) {
  for (int round = 0; round < 5; ++round) {
    run(here_, "drop table holdfast_fences; alter table things drop column fence_epoch");
    std::vector<std::future<bool>> makers;
    for (auto* const each : {here_, a_, b_, place_.connect()})
      makers.push_back(std::async(std::launch::async,
                                  [this, each] { return postgres::make_schema(each) && things_.add_columns(each); }));
    for (auto& each : makers) EXPECT_TRUE(each.get());
  }
}

TEST_F(Postgres, ATableInAnotherSchemaIsNamedByBoth) {
  run(here_,
      "drop schema if exists elsewhere cascade; create schema elsewhere; "
      "create table elsewhere.things (name text primary key, value integer)");
  postgres::FencedTable const table("things", "name", "elsewhere");
  ASSERT_TRUE(table.add_columns(here_));
  ASSERT_TRUE(table.upsert(here_, "x", {{"value", "1"}}, {0, 1}));
  EXPECT_EQ(ask("select value from elsewhere.things"), "1");
  EXPECT_EQ(ask("select count(*) from things"), "0");
}

TEST_F(Postgres, AKeyMayBeANumber) {
  run(here_, "create table numbered (id bigint primary key, value text)");
  postgres::FencedTable const table("numbered", "id");
  ASSERT_TRUE(table.add_columns(here_));
  ASSERT_TRUE(table.upsert(here_, "7", {{"value", "seven"}}, {0, 2}));
  EXPECT_EQ(table.update(here_, "7", {{"value", "late"}}, {0, 1}).error(), errc::stale_fence);
  EXPECT_TRUE(table.update(here_, "7", {{"value", "still seven"}}, {0, 2}).value());
  ASSERT_TRUE(table.erase(here_, "7", {0, 3}));
  EXPECT_EQ(table.upsert(here_, "seven", {}, {0, 4}).error(), errc::invalid_argument) << "the server says no";
}

TEST_F(Postgres, WhoMayNotWriteIsDenied) {
  run(here_, "do $$ begin create role reader; exception when duplicate_object then null; end $$");
  run(here_, "do $$ begin execute format('grant usage on schema %I to reader', current_schema()); end $$");
  run(a_, "set role reader");
  auto const refused = postgres::Gate(a_).claim("x", {0, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::denied) << refused.error().message();
  run(b_, "begin read only");
  EXPECT_EQ(postgres::guard(b_, "x", {0, 1}).error(), errc::denied);
}

TEST_F(Postgres, ABrokenConnectionIsNeverASuccess) {
  ASSERT_TRUE(postgres::Gate(a_).claim("x", {0, 1}));
  ASSERT_EQ(ask("select pg_terminate_backend(" + std::to_string(PQbackendPID(a_)) + ", 10000)"), "t");
  auto const ended = postgres::Gate(a_).claim("x", {0, 2});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error(), errc::unknown_outcome) << ended.error().message();
  EXPECT_EQ(postgres::Gate(a_).claim("x", {0, 2}).error(), errc::unavailable) << "it is gone for good";

  ::shutdown(PQsocket(b_), SHUT_RD);  // sent, but no answer comes
  EXPECT_EQ(postgres::Gate(b_).claim("x", {0, 3}).error(), errc::unknown_outcome);
  EXPECT_TRUE(postgres::Gate(here_).claim("x", {0, 3})) << "repeating it does no harm";
}

TEST_F(Postgres, AZeroByteIsRefusedAndNotCutShort) {
  EXPECT_EQ(postgres::Gate(here_).claim(std::string_view("x\0y", 3), {0, 1}).error(), errc::invalid_argument);
}

}  // namespace
}  // namespace holdfast::test

#include <sqlite3.h>

#include <filesystem>
#include <holdfast/sqlite.hpp>

#include "tests/stores/contract.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

/// One file, in memory where there is such a place.
class SqlitePlace {
 public:
  using Connection = sqlite3;
  using Gate = sqlite::Gate;
  using FencedTable = sqlite::FencedTable;
  static constexpr char begin[] = "begin immediate";

  SqlitePlace() {
    auto const base = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    auto pattern = (base / "holdfast-sqlite-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~SqlitePlace() {
    for (auto* const each : connections_) sqlite3_close(each);
    fs::remove_all(directory_);
  }
  SqlitePlace(SqlitePlace const&) = delete;

  sqlite3* connect() {
    sqlite3* made = nullptr;
    EXPECT_EQ(sqlite3_open((directory_ / "file").c_str(), &made), SQLITE_OK);
    sqlite3_busy_timeout(made, 60'000);
    ask(made, "pragma journal_mode = wal");
    return connections_.emplace_back(made);
  }

  static Result<void> make_schema(sqlite3* connection) { return sqlite::make_schema(connection); }
  static Result<void> guard(sqlite3* connection, std::string_view resource, Fence fence) {
    return sqlite::guard(connection, resource, fence);
  }

  static std::string ask(sqlite3* connection, std::string const& sql) {
    std::string answer;
    auto const first = [](void* into, int, char** values, char**) {
      if (values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), first, &answer, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(connection);
    return answer;
  }
  static void forget(sqlite3*) {}

 private:
  fs::path directory_;
  std::vector<sqlite3*> connections_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Sqlite, Store, SqlitePlace);

TEST(Sqlite, AnotherWriterInTheWayIsBusyAndNeverASuccess) {
  SqlitePlace place;
  auto *const a = place.connect(), *const b = place.connect();
  ASSERT_TRUE(sqlite::make_schema(a));
  sqlite3_busy_timeout(b, 0);
  place.ask(a, "begin immediate");
  ASSERT_TRUE(sqlite::guard(a, "x", {0, 1}));
  sqlite::Gate gate(b);
  EXPECT_EQ(gate.claim("x", {0, 2}).error(), errc::busy);
  place.ask(a, "commit");
  EXPECT_TRUE(gate.claim("x", {0, 2}));
}

TEST(Sqlite, ATransactionThatReadTooEarlyIsBusyAndNeverASuccess) {
  SqlitePlace place;
  auto *const a = place.connect(), *const b = place.connect();
  ASSERT_TRUE(sqlite::make_schema(a));
  place.ask(a, "begin");  // not immediate
  place.ask(a, "select count(*) from holdfast_fences");
  sqlite::Gate gate(b);
  ASSERT_TRUE(gate.claim("x", {0, 1}));
  auto const refused = sqlite::guard(a, "x", {0, 2});
  ASSERT_FALSE(refused) << "what it read is older than another's write";
  EXPECT_EQ(refused.error(), errc::busy);
  EXPECT_EQ(refused.error().value(), SQLITE_BUSY_SNAPSHOT) << refused.error().message();
  place.ask(a, "rollback");
}

TEST(Sqlite, AFileThatMayNotBeWrittenIsDenied) {
  SqlitePlace place;
  auto* const here = place.connect();
  ASSERT_TRUE(sqlite::make_schema(here));
  place.ask(here, "pragma query_only = true");
  sqlite::Gate gate(here);
  EXPECT_EQ(gate.claim("x", {0, 1}).error(), errc::denied);
}

TEST(Sqlite, AStoredFenceThatIsNoneIsCorruptAndNotZero) {
  SqlitePlace place;
  auto* const here = place.connect();
  ASSERT_TRUE(sqlite::make_schema(here));
  place.ask(here, "insert into holdfast_fences values ('x', 'high', 'higher')");
  sqlite::Gate gate(here);
  EXPECT_EQ(gate.claim("x", {0, 1}).error(), errc::corrupt);
}

}  // namespace
}  // namespace holdfast::test

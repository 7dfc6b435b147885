#pragma once

#include <holdfast/gate.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Fences in SQL: what PostgreSQL and SQLite have in common, which is every statement. Each check is part of the
/// statement that writes, and each statement touches one row, so that there is no instant between the two, and no
/// snapshot that is older than the check.
namespace holdfast::stores {

using Value = std::optional<std::string>;  ///< in text form; none is NULL
using Row = std::vector<Value>;
using Rows = std::vector<Row>;
using Columns = std::vector<std::pair<std::string, Value>>;

struct Answer {
  Rows rows;             ///< of a select
  bool changed = false;  ///< whether a write changed any row
};

/// One connection of the user's, as the statements here see it.
class Database {
 public:
  virtual ~Database() = default;

  /// Runs one statement; `values` are its $1, $2, and so on.
  virtual Result<Answer> run(std::string const& sql, std::vector<Value> const& values) = 0;

  /// An identifier as it is written in a statement.
  virtual Result<std::string> quoted(std::string_view identifier) = 0;

  /// Called upon a refusal: keeps the transaction that is under way, if there is one, from being committed.
  virtual void spoil() = 0;
};

/// A table of the user's, with the columns fence_epoch, fence_token and fence_erased.
struct Table {
  std::string schema;  ///< may be empty
  std::string name;
  std::string key;
};

/// Raises a resource's mark, or refuses. Either way its row stays locked until the transaction ends.
Result<void> raise(Database& database, std::string_view resource, Fence fence);

/// Refuses, but never raises.
Result<void> check(Database& database, std::string_view resource, Fence fence);

Result<void> claim(Database& database, Table const& table, std::string_view key, Fence fence);
Result<void> upsert(Database& database, Table const& table, std::string_view key, Columns const& columns, Fence fence);
Result<bool> update(Database& database, Table const& table, std::string_view key, Columns const& columns, Fence fence);
Result<void> erase(Database& database, Table const& table, std::string_view key, Fence fence);

/// The table's name as it is written in a statement.
Result<std::string> quoted(Database& database, Table const& table);

}  // namespace holdfast::stores

#pragma once

#include <holdfast/gate.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct sqlite3;

/// Fences that SQLite enforces, for programs that share one file on one host. A component of its own:
/// find_package(holdfast COMPONENTS sqlite), link holdfast::sqlite; it needs SQLite 3.26 or later.
///
/// The same calls as in postgres.hpp, on the user's own connection. What differs:
///
///   - SQLite has one writer at a time. Begin a guarded transaction with `begin immediate`, so that it waits for its
///     turn at once (as long as `sqlite3_busy_timeout` says) and cannot fail half-way.
///   - A refusal leaves the transaction as it is: roll it back, and do not commit what it did.
///
/// Errors, of all calls: stale_fence, naming both fences; busy if another connection was in the way, which may have
/// changed nothing here: roll back and do the whole transaction again; unavailable (disk full, no such file), denied
/// (read-only), cancelled (interrupted), corrupt, and invalid_argument for everything else that SQLite refuses. The
/// message has SQLite's words, `value()` is its extended result code. A fence above 2^63-1 is an invalid_argument.
///
/// Thread safety, of all of this: as the connection, which one thread uses at a time. No completions.
namespace holdfast::sqlite {

/// The table of fences: one row for each resource.
inline constexpr char kSchema[] =
    "create table if not exists holdfast_fences (resource text primary key, epoch integer not null, token integer not "
    "null) without rowid";

/// Makes the table of fences, if it is not there.
[[nodiscard]] HOLDFAST_API Result<void> make_schema(sqlite3* connection);

/// Guards whatever the user's own transaction does: call it first in the transaction, before it reads.
///
///     begin immediate; guard(connection, "accounts/7", hold.fence()); select ...; update ...; commit
///
/// It raises the resource's mark to this fence, or refuses. Being first, it is also the claim for what the transaction
/// reads. A holder that reads *before* the transaction claims before that, with a Gate.
/// Errors: also invalid_argument if no transaction is under way.
[[nodiscard]] HOLDFAST_API Result<void> guard(sqlite3* connection, std::string_view resource, Fence fence);

/// The FenceGate of the table of fences. Each call is a statement of its own; inside a transaction it is part of that.
/// (An `admit` outside the transaction that writes guards nothing.) Lifetime: the connection must outlive it.
class HOLDFAST_API Gate final : public FenceGate {
 public:
  explicit Gate(sqlite3* connection) noexcept : connection_(connection) {}

  [[nodiscard]] Result<void> claim(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> admit(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> check(std::string_view resource, Fence fence) override;

 private:
  sqlite3* connection_;
};

/// Columns and their values, as text that takes the column's affinity; none is NULL.
using Columns = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// A table of the user's in which every row is a resource with a mark of its own: three columns hold it, and each write
/// is one statement that checks and writes.
///
/// A row that was erased stays as a tombstone (`fence_erased`), because its mark has to; likewise the claim of a row
/// that does not exist makes one. So whoever reads says `where not fence_erased`, and columns other than the key have
/// to be nullable or have a default. The key column has to be unique.
class HOLDFAST_API FencedTable {
 public:
  FencedTable(std::string name, std::string key) : name_(std::move(name)), key_(std::move(key)) {}

  /// Adds the columns fence_epoch, fence_token and fence_erased to the table, where they are missing.
  [[nodiscard]] Result<void> add_columns(sqlite3* connection) const;

  /// A new holder is here, before it reads the row: lower fences are refused from now on.
  [[nodiscard]] Result<void> claim(sqlite3* connection, std::string_view key, Fence fence) const;

  /// Inserts the row, or updates it, also one that was erased. Columns that are not given stay as they are.
  [[nodiscard]] Result<void> upsert(sqlite3* connection, std::string_view key, Columns const& columns,
                                    Fence fence) const;

  /// Updates the row: false if there is none, or if it was erased.
  [[nodiscard]] Result<bool> update(sqlite3* connection, std::string_view key, Columns const& columns,
                                    Fence fence) const;

  /// Erases the row; well also if there is none.
  [[nodiscard]] Result<void> erase(sqlite3* connection, std::string_view key, Fence fence) const;

 private:
  std::string name_, key_;
};

}  // namespace holdfast::sqlite

#pragma once

#include <holdfast/gate.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct pg_conn;  // libpq's PGconn

/// Fences that PostgreSQL enforces. A component of its own: find_package(holdfast COMPONENTS postgres), link
/// holdfast::postgres; it needs libpq.
///
/// All of it works on the user's own connection (a PGconn), in blocking use, not in pipeline mode. Nothing is kept on
/// the connection between two calls: no prepared statement, no advisory lock, no setting. So it may come out of a pool,
/// and be another one for each call; also a pool that hands out connections per transaction (PgBouncer) will do.
///
/// A refusal inside a transaction also fails that transaction: it can only be rolled back. Whoever forgets to look at
/// the result commits nothing.
///
/// Errors, of all calls: stale_fence, naming both fences; busy if another transaction was in the way (a serialization
/// failure, a deadlock, a lock timeout), which may have changed nothing here: roll back and do the whole transaction
/// again; unknown_outcome if the connection broke outside a transaction, after the statement was sent: repeat it, that
/// does no harm; unavailable, denied, cancelled, corrupt, not_supported, and invalid_argument for everything else that
/// the server refuses. The message has the SQLSTATE and the server's words, `value()` is the SQLSTATE read as a number
/// in base 36. A fence above 2^63-1 does not fit into bigint and is an invalid_argument; no service gives such a token.
///
/// Thread safety, of all of this: as the connection, which one thread uses at a time. No completions.
namespace holdfast::postgres {

/// The table of fences, as a statement for those who have their own way of changing schemas: one row for each resource,
/// and room in each page to update it in place.
inline constexpr char kSchema[] =
    "create table if not exists holdfast_fences (resource text primary key, epoch bigint not null, token bigint not "
    "null) with (fillfactor = 50)";

/// Makes the table of fences, if it is not there. Any number of processes may do so at once; outside a transaction.
[[nodiscard]] HOLDFAST_API Result<void> make_schema(pg_conn* connection);

/// Guards whatever the user's own transaction does: call it first in the transaction, before it reads.
///
///     begin; guard(connection, "accounts/7", hold.fence()); select ...; update ...; insert ...; commit
///
/// It raises the resource's mark to this fence, or refuses. The mark's row then stays locked until the transaction
/// ends, so that transactions of one resource follow upon each other: nobody with a higher fence can come in between,
/// and nobody with a lower one can commit later. Safe with every isolation level: it writes the row rather than only
/// locking it (`select ... for update`), since a snapshot that is older than another's guarded transaction is noticed
/// by that alone; it is then busy.
///
/// Being first, it is also the claim for what the transaction reads. A holder that reads *before* the transaction
/// claims before that, with a Gate; and should, so that no row stays locked while it thinks.
/// Errors: also invalid_argument if no transaction is under way. Round trips: 1.
[[nodiscard]] HOLDFAST_API Result<void> guard(pg_conn* connection, std::string_view resource, Fence fence);

/// The FenceGate of the table of fences. Each call is a statement of its own; inside a transaction it is part of that,
/// and `claim` and `admit` are what `guard` is. (An `admit` outside the transaction that writes guards nothing.)
/// Round trips: 1. Lifetime: the connection must outlive it.
class HOLDFAST_API Gate final : public FenceGate {
 public:
  explicit Gate(pg_conn* connection) noexcept : connection_(connection) {}

  [[nodiscard]] Result<void> claim(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> admit(std::string_view resource, Fence fence) override;
  [[nodiscard]] Result<void> check(std::string_view resource, Fence fence) override;

 private:
  pg_conn* connection_;
};

/// Columns and their values, in text form as libpq has them; none is NULL.
using Columns = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// A table of the user's in which every row is a resource with a mark of its own: three columns hold it, and each write
/// is one statement that checks and writes.
///
/// A row that was erased stays as a tombstone (`fence_erased`), because its mark has to: were it gone, a late write of
/// an older holder would bring the row back. Likewise the claim of a row that does not exist makes a tombstone. So
/// whoever reads says `where not fence_erased`, and columns other than the key have to be nullable or have a default.
/// docs/fencing.md says when tombstones may go.
///
/// The table and its key column (a unique one) are named as they are in the catalogue; names are quoted. Values are
/// parameters. Round trips: 1 each; upon a refusal 2 or 3.
class HOLDFAST_API FencedTable {
 public:
  /// Without a schema the table is looked for as the connection's search_path says.
  FencedTable(std::string name, std::string key, std::string schema = {})
      : name_(std::move(name)), key_(std::move(key)), schema_(std::move(schema)) {}

  /// Adds the columns fence_epoch, fence_token and fence_erased to the table, where they are missing.
  [[nodiscard]] Result<void> add_columns(pg_conn* connection) const;

  /// A new holder is here, before it reads the row: lower fences are refused from now on.
  [[nodiscard]] Result<void> claim(pg_conn* connection, std::string_view key, Fence fence) const;

  /// Inserts the row, or updates it, also one that was erased. Columns that are not given stay as they are.
  [[nodiscard]] Result<void> upsert(pg_conn* connection, std::string_view key, Columns const& columns,
                                    Fence fence) const;

  /// Updates the row: false if there is none, or if it was erased.
  [[nodiscard]] Result<bool> update(pg_conn* connection, std::string_view key, Columns const& columns,
                                    Fence fence) const;

  /// Erases the row; well also if there is none.
  [[nodiscard]] Result<void> erase(pg_conn* connection, std::string_view key, Fence fence) const;

 private:
  std::string name_, key_, schema_;
};

}  // namespace holdfast::postgres

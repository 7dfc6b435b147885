#include <holdfast/sqlite.hpp>

#include "stores/sqlite/connection.hpp"

namespace holdfast::sqlite {

namespace {

Result<void> done(Result<stores::Answer> const& result) { return result ? Result<void>() : result.error(); }

/// One that cannot be looked for is not there: adding it says why.
bool has_column(Connection& connection, std::string const& table, std::string const& column) {
  auto const found = connection.run("select 1 from pragma_table_info($1) where name = $2", {table, column});
  return found && !found->rows.empty();
}

}  // namespace

Result<void> make_schema(sqlite3* connection) {
  Connection here(connection);
  return done(here.run(kSchema, {}));
}

Result<void> guard(sqlite3* connection, std::string_view resource, Fence fence) {
  Connection here(connection);
  if (!here.in_transaction())
    return describe(errc::invalid_argument, "guard needs a transaction, and none is under way on this connection");
  return stores::raise(here, resource, fence);
}

Result<void> Gate::claim(std::string_view resource, Fence fence) {
  Connection here(connection_);
  return stores::raise(here, resource, fence);
}

Result<void> Gate::admit(std::string_view resource, Fence fence) { return claim(resource, fence); }

Result<void> Gate::check(std::string_view resource, Fence fence) {
  Connection here(connection_);
  return stores::check(here, resource, fence);
}

Result<void> FencedTable::add_columns(sqlite3* connection) const {
  Connection here(connection);
  auto const table = here.quoted(name_);
  if (!table) return table.error();
  for (std::string const column : {"fence_epoch", "fence_token", "fence_erased"}) {
    if (has_column(here, name_, column)) continue;
    auto const added = here.run("alter table " + *table + " add column " + column + " integer not null default 0", {});
    if (!added && !has_column(here, name_, column)) return added.error();  // nor did another process
  }
  return {};
}

Result<void> FencedTable::claim(sqlite3* connection, std::string_view key, Fence fence) const {
  Connection here(connection);
  return stores::claim(here, {{}, name_, key_}, key, fence);
}

Result<void> FencedTable::upsert(sqlite3* connection, std::string_view key, Columns const& columns, Fence fence) const {
  Connection here(connection);
  return stores::upsert(here, {{}, name_, key_}, key, columns, fence);
}

Result<bool> FencedTable::update(sqlite3* connection, std::string_view key, Columns const& columns, Fence fence) const {
  Connection here(connection);
  return stores::update(here, {{}, name_, key_}, key, columns, fence);
}

Result<void> FencedTable::erase(sqlite3* connection, std::string_view key, Fence fence) const {
  Connection here(connection);
  return stores::erase(here, {{}, name_, key_}, key, fence);
}

}  // namespace holdfast::sqlite

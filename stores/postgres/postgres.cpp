#include <holdfast/postgres.hpp>

#include "stores/postgres/connection.hpp"

namespace holdfast::postgres {

namespace {

/// A statement that makes something if it is not there. Two who run it at once can get in each other's way, since
/// PostgreSQL looks first and makes then: the second time the other's is there.
Result<void> make(Connection& connection, std::string const& sql) {
  if (connection.run(sql, {})) return {};
  auto const again = connection.run(sql, {});
  return again ? Result<void>() : again.error();
}

}  // namespace

Result<void> make_schema(pg_conn* connection) {
  Connection here(connection);
  return make(here, kSchema);
}

Result<void> guard(pg_conn* connection, std::string_view resource, Fence fence) {
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

Result<void> FencedTable::add_columns(pg_conn* connection) const {
  Connection here(connection);
  auto const table = stores::quoted(here, {schema_, name_, key_});
  if (!table) return table.error();
  return make(here, "alter table " + *table +
                        " add column if not exists fence_epoch bigint not null default 0,"
                        " add column if not exists fence_token bigint not null default 0,"
                        " add column if not exists fence_erased boolean not null default false");
}

Result<void> FencedTable::claim(pg_conn* connection, std::string_view key, Fence fence) const {
  Connection here(connection);
  return stores::claim(here, {schema_, name_, key_}, key, fence);
}

Result<void> FencedTable::upsert(pg_conn* connection, std::string_view key, Columns const& columns, Fence fence) const {
  Connection here(connection);
  return stores::upsert(here, {schema_, name_, key_}, key, columns, fence);
}

Result<bool> FencedTable::update(pg_conn* connection, std::string_view key, Columns const& columns, Fence fence) const {
  Connection here(connection);
  return stores::update(here, {schema_, name_, key_}, key, columns, fence);
}

Result<void> FencedTable::erase(pg_conn* connection, std::string_view key, Fence fence) const {
  Connection here(connection);
  return stores::erase(here, {schema_, name_, key_}, key, fence);
}

}  // namespace holdfast::postgres

#include "stores/sql.hpp"

#include <cstdint>
#include <limits>

namespace holdfast::stores {

using boost::system::in_place_error;

namespace {

/// The two numbers of a fence, which have to fit into two columns of signed 64 bits.
Result<std::vector<Value>> numbers(Fence fence) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (fence.epoch() <= kMost && fence.token() <= kMost)
    return std::vector<Value>{std::to_string(fence.epoch()), std::to_string(fence.token())};
  return describe(errc::invalid_argument, "the fence " + fence.to_string() +
                                              " cannot be stored: its columns are bigint, which ends at " +
                                              std::to_string(kMost));
}

/// The mark that was read, if its row is there.
Result<std::optional<Fence>> mark_in(Result<Answer> const& answer) {
  if (!answer) return answer.error();
  if (answer->rows.empty()) return std::optional<Fence>();
  auto const& row = answer->rows.front();
  auto const text = row.at(0).value_or("null") + "." + row.at(1).value_or("null");
  auto const mark = Fence::parse(text);
  return mark ? Result<std::optional<Fence>>(*mark) : describe(errc::corrupt, "the stored fence " + text + " is none");
}

/// The refusal of a write that found a higher mark; `mark` is what was read of it afterwards.
error_code refusal(Database& database, std::string_view resource, Fence fence, std::optional<Fence> mark) {
  database.spoil();
  if (mark) return stale_fence(resource, fence, *mark);
  return describe(errc::stale_fence, "'" + std::string(resource) + "' had seen a higher fence than " +
                                         fence.to_string() + ", and was removed since");
}

/// A table, its key and a fence, as the statements need them.
struct Target {
  std::string table, key_column;
  std::vector<Value> values;  ///< $1 the key, $2 and $3 the fence
  std::string resource;       ///< for errors

  /// Finds out why a write changed nothing. Only on that way is there a second statement.
  Result<std::optional<Fence>> mark(Database& database) const {
    return mark_in(
        database.run("select fence_epoch, fence_token from " + table + " where " + key_column + " = $1", {values[0]}));
  }
};

Result<Target> target(Database& database, Table const& table, std::string_view key, Fence fence) {
  auto const fits = numbers(fence);
  if (!fits) return fits.error();
  auto const name = quoted(database, table);
  if (!name) return name.error();
  auto const column = database.quoted(table.key);
  if (!column) return column.error();
  return Target{*name, *column, {std::string(key), fits->at(0), fits->at(1)}, table.name + "/" + std::string(key)};
}

/// insert ... on conflict do update, which sees the row as it is, whatever the transaction's snapshot. `columns` and
/// `parameters` go into both halves; `erased` is what a new row has, and `set` what else an existing one gets.
Result<void> put(Database& database, Target const& to, std::string const& columns, std::string const& parameters,
                 std::string const& erased, std::string const& set, Fence fence) {
  auto const written =
      database.run("insert into " + to.table + " as t (" + to.key_column + ", fence_epoch, fence_token, fence_erased" +
                       columns + ") values ($1, $2, $3, " + erased + parameters + ") on conflict (" + to.key_column +
                       ") do update set fence_epoch = excluded.fence_epoch, fence_token = excluded.fence_token" + set +
                       " where (t.fence_epoch, t.fence_token) <= (excluded.fence_epoch, excluded.fence_token)",
                   to.values);
  if (!written) return written.error();
  if (written->changed) return {};
  auto const mark = to.mark(database);
  return mark ? refusal(database, to.resource, fence, *mark) : mark.error();
}

Result<std::optional<Fence>> mark_of(Database& database, std::string_view resource) {
  return mark_in(database.run("select epoch, token from holdfast_fences where resource = $1", {std::string(resource)}));
}

}  // namespace

Result<void> raise(Database& database, std::string_view resource, Fence fence) {
  auto values = numbers(fence);
  if (!values) return values.error();
  values->insert(values->begin(), std::string(resource));
  auto const raised = database.run(
      "insert into holdfast_fences as f (resource, epoch, token) values ($1, $2, $3) on conflict (resource) do update "
      "set epoch = excluded.epoch, token = excluded.token where (f.epoch, f.token) <= (excluded.epoch, excluded.token)",
      *values);
  if (!raised) return raised.error();
  if (raised->changed) return {};
  auto const mark = mark_of(database, resource);
  return mark ? refusal(database, resource, fence, *mark) : mark.error();
}

Result<void> check(Database& database, std::string_view resource, Fence fence) {
  if (auto const fits = numbers(fence); !fits) return fits.error();
  auto const mark = mark_of(database, resource);
  if (!mark) return mark.error();
  if (!*mark || **mark <= fence) return {};
  return refusal(database, resource, fence, *mark);
}

Result<void> claim(Database& database, Table const& table, std::string_view key, Fence fence) {
  auto const to = target(database, table, key, fence);
  return to ? put(database, *to, "", "", "true", "", fence) : to.error();
}

Result<void> upsert(Database& database, Table const& table, std::string_view key, Columns const& columns, Fence fence) {
  auto to = target(database, table, key, fence);
  if (!to) return to.error();
  std::string names, parameters, set = ", fence_erased = false";
  for (auto const& [name, value] : columns) {
    auto const column = database.quoted(name);
    if (!column) return column.error();
    to->values.push_back(value);
    names += ", " + *column;
    parameters += ", $" + std::to_string(to->values.size());
    set += ", " + *column + " = excluded." + *column;
  }
  return put(database, *to, names, parameters, "false", set, fence);
}

Result<bool> update(Database& database, Table const& table, std::string_view key, Columns const& columns, Fence fence) {
  auto to = target(database, table, key, fence);
  if (!to) return {in_place_error, to.error()};
  std::string set = "fence_epoch = cast($2 as bigint), fence_token = cast($3 as bigint)";
  for (auto const& [name, value] : columns) {
    auto const column = database.quoted(name);
    if (!column) return {in_place_error, column.error()};
    to->values.push_back(value);
    set += ", " + *column + " = $" + std::to_string(to->values.size());
  }
  auto const written = database.run("update " + to->table + " as t set " + set + " where " + to->key_column +
                                        " = $1 and not fence_erased and (t.fence_epoch, t.fence_token) <= (cast($2 as "
                                        "bigint), cast($3 as bigint))",
                                    to->values);
  if (!written) return {in_place_error, written.error()};
  if (written->changed) return true;
  auto const mark = to->mark(database);
  if (!mark) return {in_place_error, mark.error()};
  if (!*mark || **mark <= fence) return false;
  return {in_place_error, refusal(database, to->resource, fence, *mark)};
}

Result<void> erase(Database& database, Table const& table, std::string_view key, Fence fence) {
  auto const to = target(database, table, key, fence);
  return to ? put(database, *to, "", "", "true", ", fence_erased = true", fence) : to.error();
}

Result<std::string> quoted(Database& database, Table const& table) {
  auto name = database.quoted(table.name);
  if (!name || table.schema.empty()) return name;
  auto const schema = database.quoted(table.schema);
  return schema ? Result<std::string>(*schema + "." + *name) : schema.error();
}

}  // namespace holdfast::stores

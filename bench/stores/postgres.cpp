#include <libpq-fe.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <holdfast/postgres.hpp>
#include <string>
#include <vector>

#include "bench/side_by_side.hpp"

// What a fence costs in PostgreSQL: each fenced write beside the same write without a fence, in turns, one by one, so
// that whatever else the machine does hits both. Run beside a server: tests/stores/server run --
// holdfast_bench_postgres
//
// holdfast_bench_postgres            the table of docs/fencing.md
// holdfast_bench_postgres --guard    quickly; fails if something is far off

namespace {

using holdfast::Fence;
using holdfast::bench::side_by_side;
namespace postgres = holdfast::postgres;

PGconn* connection = nullptr;

void must(bool fine) {
  if (fine) return;
  std::fprintf(stderr, "bench: %s\n", PQerrorMessage(connection));
  std::exit(1);
}

void run(char const* sql, std::vector<char const*> const& values = {}) {
  auto* const answer =
      PQexecParams(connection, sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0);
  auto const status = PQresultStatus(answer);
  must(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK);
  PQclear(answer);
}

void prepare() {
  run("drop table if exists plain, fenced");
  run("create table plain (name text primary key, value text)");
  run("create table fenced (name text primary key, value text)");
  must(postgres::make_schema(connection) && postgres::FencedTable("fenced", "name").add_columns(connection));
}

double upserts(int times) {
  postgres::FencedTable const table("fenced", "name");
  std::uint64_t token = 1;
  return side_by_side(
      "upsert of a row", times,
      [] {
        run("insert into plain (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
            {"x", "a value"});
      },
      [&] {
        must(table.upsert(connection, "x", {{"value", "a value"}}, {0, token++}).has_value());
      });
}

double updates(int times) {
  postgres::FencedTable const table("fenced", "name");
  return side_by_side(
      "update of a row", times,
      [] {
        run("update plain set value = $2 where name = $1", {"x", "a value"});
      },
      [&] {
        must(table.update(connection, "x", {{"value", "a value"}}, {1, 1}).has_value());
      });
}

void transaction(std::function<void()> const& guard) {
  run("begin");
  guard();
  for (auto const* name : {"a", "b"}) {
    run("select value from plain where name = $1", {name});
    run("insert into plain (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
        {name, "a value"});
  }
  run("commit");
}

double transactions(int times) {
  return side_by_side(
      "transaction of two reads and two writes, guarded", times, [] { transaction([] {}); },
      [] { transaction([] {
             must(postgres::guard(connection, "ab", {0, 1}).has_value());
           }); });
}

}  // namespace

int main(int argc, char** argv) {
  char const* const server = std::getenv("HOLDFAST_TEST_POSTGRES");
  bool const guard = argc == 2 && std::strcmp(argv[1], "--guard") == 0;
  if (server == nullptr || (argc > 1 && !guard)) {
    std::fprintf(stderr, "usage, beside a server (tests/stores/server run --): %s [--guard]\n", argv[0]);
    return 64;
  }
  connection = PQconnectdb(server);
  must(PQstatus(connection) == CONNECTION_OK);
  PQsetNoticeProcessor(
      connection, [](void*, char const*) {}, nullptr);
  prepare();
  std::printf("| µs, medians | without a fence | with one | ratio |\n|---|---|---|---|\n");
  bool fine = true;
  if (guard) {
    fine = upserts(1000) < 2;  // without a disk to wait for, most of it is the round trip: a second one would show
  } else {
    upserts(5000);
    updates(5000);
    transactions(2000);
  }
  PQfinish(connection);
  return fine ? 0 : 1;
}

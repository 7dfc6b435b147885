// A stranger's program that uses the stores, but has no connection to any: it is the linking that is tried. It calls
// every function of theirs at least once, so that one which the shared library does not export cannot be linked.
#include <holdfast/postgres.hpp>
#include <holdfast/sqlite.hpp>
#include <iostream>
#include <stdexcept>

using holdfast::Fence;

void refused(holdfast::error_code const& error) {
  if (error != holdfast::errc::invalid_argument) throw std::runtime_error(error.message());
}

template <class Gate, class Table, class Connection>
void without_connection(Connection* none, Table const& table) {
  Gate gate(none);
  refused(gate.claim("x", Fence(0, 1)).error());
  refused(gate.admit("x", Fence(0, 1)).error());
  refused(gate.check("x", Fence(0, 1)).error());
  refused(table.add_columns(none).error());
  refused(table.claim(none, "x", Fence(0, 1)).error());
  refused(table.upsert(none, "x", {{"value", "1"}}, Fence(0, 1)).error());
  refused(table.update(none, "x", {{"value", std::nullopt}}, Fence(0, 1)).error());
  refused(table.erase(none, "x", Fence(0, 1)).error());
}

int main() try {
  pg_conn* const no_server = nullptr;
  refused(holdfast::postgres::make_schema(no_server).error());
  refused(holdfast::postgres::guard(no_server, "x", Fence(0, 1)).error());
  without_connection<holdfast::postgres::Gate>(no_server, holdfast::postgres::FencedTable("things", "name", "public"));
  sqlite3* const no_file = nullptr;
  refused(holdfast::sqlite::make_schema(no_file).error());
  refused(holdfast::sqlite::guard(no_file, "x", Fence(0, 1)).error());
  without_connection<holdfast::sqlite::Gate>(no_file, holdfast::sqlite::FencedTable("things", "name"));
  std::cout << "both stores are linked\n";
  return 0;
} catch (std::exception const& e) {
  std::cerr << "stores: " << e.what() << '\n';
  return 1;
}

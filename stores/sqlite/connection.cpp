#include "stores/sqlite/connection.hpp"

#include <sqlite3.h>

#include <memory>

namespace holdfast::sqlite {

namespace {

errc condition(int code) {
  switch (code & 0xff) {  // the primary code
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return errc::busy;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return errc::denied;
    case SQLITE_INTERRUPT: return errc::cancelled;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM: return errc::unavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return errc::corrupt;
    default: return errc::invalid_argument;
  }
}

error_code failure(sqlite3* connection) {
  int const code = sqlite3_extended_errcode(connection);
  return describe(condition(code), "SQLite: " + std::string(sqlite3_errmsg(connection)), code);
}

stores::Row row_of(sqlite3_stmt* statement) {
  stores::Row row;
  for (int column = 0; column < sqlite3_column_count(statement); ++column) {
    auto const* const text = reinterpret_cast<char const*>(sqlite3_column_text(statement, column));
    row.push_back(text == nullptr ? stores::Value() : text);
  }
  return row;
}

}  // namespace

Result<stores::Answer> Connection::run(std::string const& sql, std::vector<stores::Value> const& values) {
  if (connection_ == nullptr) return describe(errc::invalid_argument, "SQLite: there is no connection");
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(connection_, sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) return failure(connection_);
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> const statement(prepared, sqlite3_finalize);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;  // NULL unless bound
    // $1 is a name here: it may stand anywhere.
    int const at = sqlite3_bind_parameter_index(prepared, ("$" + std::to_string(i + 1)).c_str());
    if (sqlite3_bind_text64(prepared, at, values[i]->data(), values[i]->size(), SQLITE_STATIC, SQLITE_UTF8) !=
        SQLITE_OK)
      return failure(connection_);
  }
  stores::Answer answer;
  int status = 0;
  while ((status = sqlite3_step(prepared)) == SQLITE_ROW) answer.rows.push_back(row_of(prepared));
  if (status != SQLITE_DONE) return failure(connection_);
  answer.changed = sqlite3_changes(connection_) > 0;
  return answer;
}

Result<std::string> Connection::quoted(std::string_view identifier) {
  if (identifier.find('\0') != std::string_view::npos)
    return describe(errc::invalid_argument, "SQLite: a name with a zero byte");
  std::string text = "\"";
  for (char const c : identifier) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

bool Connection::in_transaction() const { return connection_ != nullptr && sqlite3_get_autocommit(connection_) == 0; }

}  // namespace holdfast::sqlite

#include "stores/postgres/connection.hpp"

#include <libpq-fe.h>

#include <memory>

namespace holdfast::postgres {

namespace {

using Answer = std::unique_ptr<PGresult, decltype(&PQclear)>;

/// libpq's explanations have several lines, of which the first says what happened.
std::string words(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// By SQLSTATE, or its class: the first two characters.
errc condition(std::string_view state) {
  auto const is = [&](auto... begins) { return (state.starts_with(begins) || ...); };
  if (is("40001", "40P01", "55P03")) return errc::busy;
  if (is("57014")) return errc::cancelled;
  if (is("42501", "28", "25006")) return errc::denied;
  if (is("08", "53", "57P", "58")) return errc::unavailable;
  if (is("0A")) return errc::not_supported;
  if (is("XX")) return errc::corrupt;
  return errc::invalid_argument;
}

int as_number(std::string_view state) {
  int number = 0;
  for (char const c : state) number = number * 36 + (c >= 'A' ? c - 'A' + 10 : c - '0');
  return number;
}

stores::Answer answer_of(PGresult* result) {
  stores::Answer answer;
  for (int row = 0; row < PQntuples(result); ++row) {
    auto& values = answer.rows.emplace_back();
    for (int column = 0; column < PQnfields(result); ++column)
      values.push_back(PQgetisnull(result, row, column) ? stores::Value() : PQgetvalue(result, row, column));
  }
  std::string_view const count = PQcmdTuples(result);
  answer.changed = !count.empty() && count != "0";
  return answer;
}

}  // namespace

Result<stores::Answer> Connection::run(std::string const& sql, std::vector<stores::Value> const& values) {
  if (connection_ == nullptr) return describe(errc::invalid_argument, "PostgreSQL: there is no connection");
  std::vector<char const*> texts;
  for (auto const& value : values) {
    if (value && value->find('\0') != std::string::npos)
      return describe(errc::invalid_argument, "PostgreSQL: a value with a zero byte, which text cannot have");
    texts.push_back(value ? value->c_str() : nullptr);
  }
  bool const gone = PQstatus(connection_) != CONNECTION_OK;
  // Until the transaction is committed nothing of it can have taken effect.
  bool const may_have_happened = !gone && !in_transaction();
  Answer const answer(PQexecParams(connection_, sql.c_str(), static_cast<int>(texts.size()), nullptr, texts.data(),
                                   nullptr, nullptr, 0),
                      PQclear);
  auto const status = PQresultStatus(answer.get());
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return answer_of(answer.get());
  if (char const* const state = PQresultErrorField(answer.get(), PG_DIAG_SQLSTATE))
    return describe(condition(state),
                    "PostgreSQL, SQLSTATE " + std::string(state) + ": " +
                        words(PQresultErrorField(answer.get(), PG_DIAG_MESSAGE_PRIMARY)),
                    as_number(state));
  bool const broke = PQstatus(connection_) != CONNECTION_OK;
  return describe(!broke              ? errc::invalid_argument
                  : may_have_happened ? errc::unknown_outcome
                                      : errc::unavailable,
                  "PostgreSQL: " + words(PQerrorMessage(connection_)));
}

Result<std::string> Connection::quoted(std::string_view identifier) {
  if (connection_ == nullptr) return describe(errc::invalid_argument, "PostgreSQL: there is no connection");
  std::unique_ptr<char, decltype(&PQfreemem)> const text(
      PQescapeIdentifier(connection_, identifier.data(), identifier.size()), PQfreemem);
  if (text == nullptr)
    return describe(errc::invalid_argument, "PostgreSQL: not a name: " + words(PQerrorMessage(connection_)));
  return std::string(text.get());
}

void Connection::spoil() {
  if (in_transaction()) (void)run("do $$ begin raise 'holdfast: refused, the fence is stale'; end $$", {});
}

bool Connection::in_transaction() const { return PQtransactionStatus(connection_) == PQTRANS_INTRANS; }

}  // namespace holdfast::postgres

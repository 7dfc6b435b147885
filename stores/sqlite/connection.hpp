#pragma once

#include "stores/sql.hpp"

struct sqlite3;

namespace holdfast::sqlite {

/// The user's connection, for the length of one call.
class Connection final : public stores::Database {
 public:
  explicit Connection(sqlite3* connection) noexcept : connection_(connection) {}

  Result<stores::Answer> run(std::string const& sql, std::vector<stores::Value> const& values) override;
  Result<std::string> quoted(std::string_view identifier) override;
  void spoil() override {}  // a rollback would leave what follows outside of any transaction, which is worse

  [[nodiscard]] bool in_transaction() const;

 private:
  sqlite3* connection_;
};

}  // namespace holdfast::sqlite

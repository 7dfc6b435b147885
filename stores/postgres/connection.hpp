#pragma once

#include "stores/sql.hpp"

struct pg_conn;

namespace holdfast::postgres {

/// The user's connection, for the length of one call.
class Connection final : public stores::Database {
 public:
  explicit Connection(pg_conn* connection) noexcept : connection_(connection) {}

  Result<stores::Answer> run(std::string const& sql, std::vector<stores::Value> const& values) override;
  Result<std::string> quoted(std::string_view identifier) override;
  void spoil() override;

  [[nodiscard]] bool in_transaction() const;

 private:
  pg_conn* connection_;
};

}  // namespace holdfast::postgres

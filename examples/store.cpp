// Values in an SQLite file, each with a fence, as a command: what a script under `holdfast run` writes to. The fence
// comes from the environment in which `holdfast run` starts the script.
//
//   store FILE write NAME TEXT    exit status 1 if the fence is stale; then nothing was written
//   store FILE read NAME          the fence it was written with, and the text
#include <sqlite3.h>

#include <cstdlib>
#include <holdfast/sqlite.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using File = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

holdfast::sqlite::FencedTable const values("stored", "name");

File open(std::string const& path) {
  sqlite3* opened = nullptr;
  bool const fine = sqlite3_open(path.c_str(), &opened) == SQLITE_OK;
  File file(opened, sqlite3_close);
  sqlite3_busy_timeout(opened, 10'000);  // others write as well: wait for them
  if (!fine || sqlite3_exec(opened, "create table if not exists stored (name text primary key, value text)", nullptr,
                            nullptr, nullptr) != SQLITE_OK)
    throw std::runtime_error(sqlite3_errmsg(opened));
  values.add_columns(opened).value();
  return file;
}

holdfast::Fence fence() {
  char const *const epoch = std::getenv("HOLDFAST_FENCE_EPOCH"), *const token = std::getenv("HOLDFAST_FENCE");
  if (token == nullptr) throw std::runtime_error("no HOLDFAST_FENCE: this is to be run by `holdfast run`");
  return holdfast::Fence::parse(std::string(epoch == nullptr ? "0" : epoch) + "." + token).value();
}

int read(sqlite3* file, std::string const& name) {
  sqlite3_stmt* query = nullptr;
  sqlite3_prepare_v2(file, "select fence_token, value from stored where name = ? and not fence_erased", -1, &query,
                     nullptr);
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> const finally(query, sqlite3_finalize);
  sqlite3_bind_text(query, 1, name.c_str(), -1, SQLITE_STATIC);
  if (sqlite3_step(query) != SQLITE_ROW) throw std::runtime_error("nothing was written under that name");
  std::cout << sqlite3_column_text(query, 0) << ' ' << sqlite3_column_text(query, 1) << '\n';
  return 0;
}

int main(int argc, char** argv) try {
  std::vector<std::string> const words(argv + 1, argv + argc);
  if (words.size() < 3) throw std::invalid_argument("usage: store FILE write NAME TEXT, or store FILE read NAME");
  auto const file = open(words[0]);
  if (words[1] == "read") return read(file.get(), words[2]);
  auto const written = values.upsert(file.get(), words[2], {{"value", words.at(3)}}, fence());
  if (written) return 0;
  std::cerr << "store: " << written.error().message() << '\n';
  return written.error() == holdfast::errc::stale_fence ? 1 : 2;
} catch (std::exception const& e) {
  std::cerr << "store: " << e.what() << '\n';
  return 2;
}

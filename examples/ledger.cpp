// A ledger in PostgreSQL. Its accounts come in pairs; a transfer moves money within a pair, under the pair's lock: it
// reads both balances, thinks, and writes them back with an entry in the journal, as one transaction.
//
//   ledger LOCKS DATABASE setup PAIRS              makes accounts with 1000 each; 2k and 2k + 1 are a pair
//   ledger LOCKS DATABASE transfer ID PAIR AMOUNT  makes that transfer, once, however often it is called
//   ledger LOCKS DATABASE work NAME PAIRS COUNT    makes COUNT transfers NAME-0, NAME-1, ...
//   ledger LOCKS DATABASE audit                    whether every balance is what the journal says
//
// LOCKS is a holdfast URL, DATABASE a connection string of libpq. Two more options are for seeing what fences are for:
// `--stop-once` stops this process, as a debugger or a frozen machine would, between its first read and the write;
// `--no-fence` leaves the fence out.
//
// The fence protects what checks it, and that is the database. Were the transfer to call a payment gateway, which knows
// nothing of fences, a late call would go through. Give the gateway the transfer's ID as its idempotency key: then
// calling it twice pays once. That, too, is the gateway's doing, and neither the lock's nor the fence's.
#include <libpq-fe.h>

#include <algorithm>
#include <csignal>
#include <holdfast/holdfast.hpp>
#include <holdfast/postgres.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace postgres = holdfast::postgres;
using namespace std::chrono_literals;
using holdfast::errc;

struct Refused : std::runtime_error {  // try again
  using runtime_error::runtime_error;
};

class Database {
 public:
  explicit Database(std::string const& where) : connection_(PQconnectdb(where.c_str()), PQfinish) {
    if (PQstatus(*this) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(*this));
    PQsetNoticeProcessor(
        *this, [](void*, char const*) {}, nullptr);
  }
  operator PGconn*() const { return connection_.get(); }

  /// The rows' first columns. In a transaction that was refused the server refuses everything, and this throws.
  std::vector<std::string> run(std::string const& sql, std::vector<std::string> const& values = {}) {
    std::vector<char const*> texts;
    for (auto const& value : values) texts.push_back(value.c_str());
    std::unique_ptr<PGresult, decltype(&PQclear)> const answer(
        PQexecParams(*this, sql.c_str(), static_cast<int>(texts.size()), nullptr, texts.data(), nullptr, nullptr, 0),
        PQclear);
    auto const status = PQresultStatus(answer.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(*this));
    std::vector<std::string> rows;
    for (int row = 0; row < PQntuples(answer.get()); ++row) rows.emplace_back(PQgetvalue(answer.get(), row, 0));
    return rows;
  }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

struct Options {
  bool fenced = true;
  bool stop_once = false;
};

void require(holdfast::Result<void> const& passed) {
  if (passed) return;
  if (passed.error() == errc::stale_fence || passed.error() == errc::busy) throw Refused(passed.error().message());
  throw std::runtime_error(passed.error().message());
}

/// One attempt, under a hold of the pair's lock.
void attempt(Database& database, holdfast::Hold const& hold, std::string const& id, int pair, int amount,
             Options& options) {
  auto const resource = "pair/" + std::to_string(pair);
  // Claim, then read: from here on no older holder can change what is read.
  if (options.fenced) require(postgres::Gate(database).claim(resource, hold.fence()));
  if (!database.run("select id from journal where id = $1", {id}).empty()) return;  // done before
  std::string const from = std::to_string(2 * pair), to = std::to_string(2 * pair + 1);
  int const payer = std::stoi(database.run("select balance from accounts where id = $1", {from}).at(0));
  int const payee = std::stoi(database.run("select balance from accounts where id = $1", {to}).at(0));

  // Here a program thinks, which is why it holds a lock and not a row of the database.
  if (std::exchange(options.stop_once, false)) std::raise(SIGSTOP);

  database.run("begin");
  try {
    if (options.fenced) require(postgres::guard(database, resource, hold.fence()));
    database.run("insert into journal values ($1, $2, $3)", {id, std::to_string(pair), std::to_string(amount)});
    database.run("update accounts set balance = $2 where id = $1", {from, std::to_string(payer - amount)});
    database.run("update accounts set balance = $2 where id = $1", {to, std::to_string(payee + amount)});
    database.run("commit");
  } catch (...) {
    database.run("rollback");
    throw;
  }
}

/// Until it is done. Its ID is what makes trying again harmless: a transfer that is in the journal is not made twice.
void transfer(holdfast::Client const& client, Database& database, std::string const& id, int pair, int amount,
              Options& options) {
  for (int tries = 1;; ++tries) {
    auto const hold = client.lock("pair/" + std::to_string(pair)).acquire_for(60s).value();
    try {
      return attempt(database, hold, id, pair, amount, options);
    } catch (Refused const& why) {
      std::cout << id << ": " << why.what() << std::endl;
      if (tries == 5) throw;  // each with a fresh hold: something is wrong with our fences
    }
  }
}

void setup(Database& database, int pairs) {
  database.run("create table accounts (id integer primary key, balance integer not null)");
  database.run("create table journal (id text primary key, pair integer not null, amount integer not null)");
  database.run("insert into accounts select id, 1000 from generate_series(0, 2 * $1::integer - 1) id",
               {std::to_string(pairs)});
  require(postgres::make_schema(database));
}

/// Both accounts of each pair, against what their journal adds up to.
bool audit(Database& database) {
  auto const wrong = database.run(
      "select format('account %s has %s instead of %s', id, balance, due) from (select a.id, a.balance, 1000 + "
      "coalesce(sum(case when a.id % 2 = 0 then -amount else amount end), 0) as due "
      "from accounts a left join journal j on j.pair = a.id / 2 group by a.id) as book where balance <> due order by "
      "id");
  for (auto const& line : wrong) std::cout << line << '\n';
  std::cout << (wrong.empty() ? "the books are right: " : "the books are wrong: ")
            << database.run("select count(*) from journal").at(0) << " transfers\n";
  return wrong.empty();
}

int main(int argc, char** argv) try {
  std::vector<std::string> words(argv + 1, argv + argc);
  Options options{.fenced = std::erase(words, "--no-fence") == 0, .stop_once = std::erase(words, "--stop-once") != 0};
  if (words.size() < 3) throw std::invalid_argument("see the comment in ledger.cpp for what it takes");
  Database database(words[1]);
  auto const& command = words[2];
  if (command == "setup") return setup(database, std::stoi(words.at(3))), 0;
  if (command == "audit") return audit(database) ? 0 : 1;

  auto const client = holdfast::Client::connect(words[0]).value();
  if (command == "transfer")
    transfer(client, database, words.at(3), std::stoi(words.at(4)), std::stoi(words.at(5)), options);
  if (command == "work")
    for (int i = 0; i < std::stoi(words.at(5)); ++i)
      transfer(client, database, words.at(3) + "-" + std::to_string(i), i % std::stoi(words.at(4)), 1 + i % 7, options);
  std::cout << "done" << std::endl;
  return 0;
} catch (std::exception const& e) {
  std::cerr << "ledger: " << e.what() << '\n';
  return 1;
}

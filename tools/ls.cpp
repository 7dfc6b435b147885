#include "tools/ls.hpp"

#include <cstdio>
#include <ctime>
#include <holdfast/holdfast.hpp>

#include "tools/exit_codes.hpp"
#include "tools/text.hpp"

namespace holdfast::tool {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

struct Row {
  std::string name;
  std::size_t waiter = 0;  ///< 0: holds; otherwise its place among those who wait
  Participant who;
};

Result<std::vector<Row>> look(Client const& client, std::vector<std::string> const& names) {
  std::vector<Row> rows;
  for (auto const& name : names) {
    auto line = client.inspect(name);
    if (!line) return line.error();
    std::size_t waiters = 0;
    for (auto& who : *line) rows.push_back({name, who.holds ? 0 : ++waiters, std::move(who)});
  }
  return rows;
}

std::string age(Participant const& who) {
  if (!who.since) return "-";
  return brief(std::chrono::duration_cast<milliseconds>(system_clock::now() - *who.since));
}

std::string utc(system_clock::time_point when) {
  std::time_t const seconds = system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void print_line(Row const& row) {
  std::string const role = row.waiter == 0 ? "holder" : "waiter " + std::to_string(row.waiter);
  std::printf("%s\t%s\t%s\t%s\t%s\n", one_word(row.name).c_str(), role.c_str(), one_word(row.who.label).c_str(),
              row.who.fence.to_string().c_str(), age(row.who).c_str());
}

/// The fence is a string, since many JSON readers round numbers above 2^53, and tokens go beyond.
std::string json_object(Row const& row) {
  std::string out = "{\"name\": " + json_string(row.name);
  out += row.waiter == 0 ? ", \"role\": \"holder\"" : ", \"role\": \"waiter\"";
  out += ", \"position\": " + std::to_string(row.waiter);
  out += ", \"label\": " + json_string(row.who.label);
  out += ", \"fence\": " + json_string(row.who.fence.to_string());
  out += ", \"since\": " + (row.who.since ? json_string(utc(*row.who.since)) : "null");
  return out + "}";
}

void print_json(std::vector<Row> const& rows) {
  char const* between = "[";
  for (auto const& row : rows) {
    std::printf("%s\n  %s", between, json_object(row).c_str());
    between = ",";
  }
  std::puts(rows.empty() ? "[]" : "\n]");
}

}  // namespace

int ls(LsOptions const& options) {
  auto config = resolve(options.place);
  if (!config) return config.error().value;
  auto const client = Client::connect(std::move(*config));
  if (!client) return complain(client.error());
  Result<std::vector<std::string>> const names = options.names.empty() ? client->names() : options.names;
  if (!names) return complain(names.error());
  auto const rows = look(*client, *names);
  if (!rows) return complain(rows.error());
  if (options.json) {
    print_json(*rows);
  } else {
    for (auto const& row : *rows) print_line(row);
  }
  return exit_codes::ok;
}

}  // namespace holdfast::tool

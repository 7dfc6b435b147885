#include "common/error.hpp"
#include "common/names.hpp"
#include "zk/backend.hpp"
#include "zk/error.hpp"
#include "zk/round.hpp"

// What only reads.

namespace holdfast::detail {

/// One question, asked again on the next connection if the answer is lost.
template <class T>
void ZkBackend::ask(std::function<void(ZkDone)> request, std::function<Result<T>(ZkReply const&)> read,
                    Reply<T> reply) {
  session_.add(
      [this, request = std::move(request), read = std::move(read), reply](OpId op, bool) {
        request([this, op, read, reply](ZkReply const& answer) {
          if (!session_.usable(op, answer)) return;
          session_.finish(op);
          reply(read(answer));
        });
      },
      [reply] {
        reply({boost::system::in_place_error, make_error_code(errc::lost)});
      });
}

void ZkBackend::look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) {
  ask<std::optional<Ahead>>([this, line](ZkDone done) { session_.handle().children(directory(line), std::move(done)); },
                            [this, line, self, rule](ZkReply const& answer) -> Result<std::optional<Ahead>> {
                              if (answer.rc == ZNONODE) return std::optional<Ahead>();
                              if (answer.rc != ZOK) return zk_error(answer.rc, directory(line));
                              return ahead_of(line, self.key, rule, parse_line(answer.names));
                            },
                            std::move(reply));
}

void ZkBackend::check(std::string const& line, EntryRef const& entry, Reply<bool> reply) {
  ask<bool>(
      [this, line, entry](ZkDone done) {
        // Together: the member then answers only when it has caught up with the leader.
        session_.handle().sync(path(line, entry.key), [](ZkReply const&) {});
        session_.handle().exists(path(line, entry.key), std::move(done));
      },
      [this, line, entry](ZkReply const& answer) -> Result<bool> {
        if (answer.rc != ZOK && answer.rc != ZNONODE)
          return {boost::system::in_place_error, zk_error(answer.rc, path(line, entry.key))};
        bool const same = answer.rc == ZOK && static_cast<std::uint64_t>(answer.stat.czxid) == entry.number;
        return {boost::system::in_place_value, same};
      },
      std::move(reply));
}

void ZkBackend::read(std::string const& key, Reply<std::optional<std::string>> reply) {
  ask<std::optional<std::string>>(
      [this, key](ZkDone done) {
        session_.handle().sync(key, [](ZkReply const&) {});
        session_.handle().get(key, std::move(done));
      },
      [key](ZkReply const& answer) -> Result<std::optional<std::string>> {
        if (answer.rc == ZOK) return std::optional(answer.text);
        if (answer.rc == ZNONODE) return std::optional<std::string>();
        return zk_error(answer.rc, key);
      },
      std::move(reply));
}

namespace {

std::chrono::system_clock::time_point time_of(std::int64_t ms) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
}

}  // namespace

void ZkBackend::list(std::string const& line, Reply<std::vector<EntryInfo>> reply) {
  auto const send = [this, line, reply](OpId op, bool) {
    session_.handle().children(directory(line), [this, line, reply, op](ZkReply const& listing) {
      if (!session_.usable(op, listing)) return;
      if (listing.rc != ZOK && listing.rc != ZNONODE) {
        session_.finish(op);
        return reply(zk_error(listing.rc, directory(line)));
      }
      auto const entries = parse_line(listing.names);
      std::vector<std::string> paths;
      paths.reserve(entries.size());
      for (auto const& entry : entries) paths.push_back(path(line, entry.key));
      Round::ask(
          paths, [this](std::string const& where, ZkDone done) { session_.handle().get(where, std::move(done)); },
          [this, reply, op, entries](std::vector<ZkReply> const& answers) {
            std::vector<EntryInfo> infos;
            for (std::size_t i = 0; i < answers.size(); ++i) {
              if (!session_.usable(op, answers[i])) return;
              if (answers[i].rc == ZNONODE) continue;
              Stat const& stat = answers[i].stat;
              EntryInfo info{
                  {entries[i].key, static_cast<std::uint64_t>(stat.czxid)}, entries[i].kind, answers[i].text, {}};
              if (answers[i].rc == ZOK) info.since = time_of(stat.ctime);
              infos.push_back(std::move(info));
            }
            session_.finish(op);
            reply(std::move(infos));
          });
    });
  };
  session_.add(send, [reply] { reply(make_error_code(errc::lost)); });
}

void ZkBackend::names(Reply<std::vector<std::string>> reply) {
  std::string const root = config_.root.empty() ? "/" : config_.root;
  auto const send = [this, root, reply](OpId op, bool) {
    session_.handle().children(root, [this, root, reply, op](ZkReply const& listing) {
      if (!session_.usable(op, listing)) return;
      if (listing.rc != ZOK && listing.rc != ZNONODE) {
        session_.finish(op);
        return reply(zk_error(listing.rc, root));
      }
      std::vector<std::string> lines;
      for (auto const& name : listing.names) {
        auto const decoded = percent_decode(name);
        bool const ours = decoded && encode_name(*decoded) && *encode_name(*decoded) == name;
        if (ours && directory(name) != "/zookeeper") lines.push_back(name);
      }
      std::sort(lines.begin(), lines.end());
      std::vector<std::string> paths;
      paths.reserve(lines.size());
      for (auto const& line : lines) paths.push_back(directory(line));
      Round::ask(
          paths, [this](std::string const& where, ZkDone done) { session_.handle().exists(where, std::move(done)); },
          [this, reply, op, lines](std::vector<ZkReply> const& answers) {
            std::vector<std::string> used;
            for (std::size_t i = 0; i < answers.size(); ++i) {
              if (!session_.usable(op, answers[i])) return;
              if (answers[i].rc == ZOK && answers[i].stat.numChildren > 0) used.push_back(lines[i]);
            }
            session_.finish(op);
            reply(std::move(used));
          });
    });
  };
  session_.add(send, [reply] { reply(make_error_code(errc::lost)); });
}

}  // namespace holdfast::detail

#include <algorithm>
#include <cstdio>

#include "common/error.hpp"
#include "zk/backend.hpp"
#include "zk/error.hpp"
#include "zk/round.hpp"

// A commit is one multi: the entry is checked, and along with what the user writes a receipt is set, an ephemeral node
// of ours. Should the answer be lost, the receipt tells, behind a barrier.
//
// ZooKeeper has no "put", only "create" and "set", and compares versions instead of values. So a multi rests on what is
// known of the user's nodes; where it is refused because that is not so, more is known, and another one is made.

namespace holdfast::detail {
namespace {

using What = ZkPart::What;

/// As the server has it; it would drop the connection, or worse, on some others.
bool is_node_path(std::string const& path) {
  if (path.size() < 2 || path.front() != '/' || path.back() == '/') return false;
  if (std::any_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
    return false;
  for (auto const* const bad : {"//", "/./", "/../"})
    if ((path + "/").find(bad) != std::string::npos) return false;
  return true;
}

std::string parent_of(std::string const& path) {
  auto const end = path.rfind('/');
  return end == 0 ? "/" : path.substr(0, end);
}

}  // namespace

struct ZkBackend::Committing {
  Guarded request;
  Reply<Fate> reply;
  std::uint32_t slot = 0;
  std::string number;                     ///< what the receipt says
  std::set<std::string> keys;             ///< all that are written or compared
  std::map<std::string, int> versions{};  ///< of nodes that have the value they should have
  std::set<std::string> absent{};         ///< nodes that were not there when we last heard
  std::set<std::string> orphans{};        ///< and whose parent was not, either
  std::vector<ZkPart> parts{};
  std::vector<std::string> part_keys{};  ///< whom each part is for
};

std::string ZkBackend::receipt(std::uint32_t slot) const {
  char name[48];
  std::snprintf(name, sizeof name, "/@commit-%016llx-%u", static_cast<unsigned long long>(id_), slot);
  return config_.root + name;
}

void ZkBackend::commit(Guarded request, Reply<Fate> reply) {
  std::set<std::string> keys;
  for (auto const* values : {&request.what.writes(), &request.what.conditions()})
    for (auto const& [key, value] : *values) {
      if (!is_node_path(key))
        return host_.defer([key = key, reply = std::move(reply)] {
          reply(fail(errc::invalid_argument, "the key " + key + " is not the path of a node, as in /app/cursor"));
        });
      keys.insert(key);
    }
  auto const slot = receipts_.take();
  auto const committing = std::make_shared<Committing>(
      Committing{std::move(request), std::move(reply), slot, std::to_string(++last_entry_), std::move(keys)});
  session_.add(
      [this, committing](OpId op, bool again) {
        again && committing->request.ticket->sent ? settle_commit(op, committing) : begin_commit(op, committing);
      },
      [committing] {
        committing->reply(make_error_code(committing->request.ticket->sent ? errc::unknown_outcome : errc::lost));
      });
}

void ZkBackend::begin_commit(OpId op, std::shared_ptr<Committing> const& committing) {
  if (!committing->request.ticket->wanted) return committed(op, committing, Fate::not_done);
  auto const& conditions = committing->request.what.conditions();
  bool const compares = std::any_of(conditions.begin(), conditions.end(), [](auto& each) { return each.second; });
  compares ? compare(op, committing) : send_commit(op, committing);
}

/// Reads what is to have a certain value; its version then stands for that value.
void ZkBackend::compare(OpId op, std::shared_ptr<Committing> const& committing) {
  std::vector<std::string> paths;
  for (auto const& [key, value] : committing->request.what.conditions())
    if (value) paths.push_back(key);
  session_.handle().sync(paths.front(), [](ZkReply const&) {});  // so that the member is not behind
  Round::ask(
      paths, [this](std::string const& where, ZkDone done) { session_.handle().get(where, std::move(done)); },
      [this, op, committing, paths](std::vector<ZkReply> const& answers) {
        for (auto const& answer : answers)
          if (!session_.usable(op, answer)) return;
        for (std::size_t i = 0; i < answers.size(); ++i) {
          ZkReply const& answer = answers[i];
          if (answer.rc != ZOK && answer.rc != ZNONODE) return committed(op, committing, zk_error(answer.rc, paths[i]));
          if (answer.rc != ZOK || answer.text != committing->request.what.conditions().at(paths[i]))
            return committed(op, committing, fail(errc::conflict, "the key " + paths[i]));
          committing->versions[paths[i]] = answer.stat.version;
        }
        send_commit(op, committing);
      });
}

void ZkBackend::send_commit(OpId op, std::shared_ptr<Committing> const& committing) {
  Guarded const& request = committing->request;
  if (!request.ticket->wanted) return committed(op, committing, Fate::not_done);
  committing->parts.clear();
  committing->part_keys.clear();
  auto const part = [&committing](What what, std::string const& path, std::string const& key, int version = -1,
                                  std::string const& data = "") {
    committing->parts.push_back({what, path, data, version});
    committing->part_keys.push_back(key);
  };
  part(What::check, path(request.line, request.self.key), "");
  for (auto const& key : committing->keys) {
    auto const& conditions = request.what.conditions();
    auto const& writes = request.what.writes();
    auto const condition = conditions.find(key);
    auto const write = writes.find(key);
    bool const to_be_absent = condition != conditions.end() && !condition->second;
    bool const written = write != writes.end();
    auto const known = committing->versions.find(key);
    int const version = known == committing->versions.end() ? -1 : known->second;
    if (written && write->second) {
      bool const create = to_be_absent || (version == -1 && committing->absent.contains(key));
      part(create ? What::create : What::set, key, key, create ? -1 : version, *write->second);
    } else if (to_be_absent) {
      if (committing->orphans.contains(key)) continue;
      part(What::create, key, key);  // it is not there if it can be made; and it goes again at once
      part(What::remove, key, key);
    } else if (written) {
      if (!committing->absent.contains(key)) part(What::remove, key, key, version);
    } else {
      part(What::check, key, key, version);
    }
  }
  bool const has_node = receipt_nodes_.contains(committing->slot);
  part(has_node ? What::set : What::create_ephemeral, receipt(committing->slot), "", -1, committing->number);

  request.ticket->sent = true;
  session_.handle().multi(committing->parts, guarded(), [this, op, committing](ZkReply const& reply) {
    if (!session_.usable(op, reply)) return;
    if (reply.rc == ZOK) {
      receipt_nodes_.insert(committing->slot);
      return committed(op, committing, Fate::done);
    }
    committing->request.ticket->sent = false;  // nothing was done, and nothing is on its way
    if (reply.failed == 0)
      return committed(
          op, committing,
          reply.rc == ZNONODE ? make_error_code(errc::lost) : zk_error(reply.rc, committing->parts[0].path));
    if (reply.failed + 1 == committing->parts.size()) {  // our receipt is there, or is not, against expectation
      if (reply.rc == ZNODEEXISTS) return receipt_nodes_.insert(committing->slot), send_commit(op, committing);
      if (reply.rc == ZNONODE && receipt_nodes_.erase(committing->slot) != 0) return send_commit(op, committing);
      return committed(op, committing, zk_error(reply.rc, receipt(committing->slot)));
    }
    commit_refused(op, committing, committing->part_keys.at(reply.failed), reply.rc);
  });
}

/// Nothing was done, because of the user's node `key`: what does that tell?
void ZkBackend::commit_refused(OpId op, std::shared_ptr<Committing> const& committing, std::string const& key, int rc) {
  auto const& conditions = committing->request.what.conditions();
  auto const condition = conditions.find(key);
  bool const to_be_absent = condition != conditions.end() && !condition->second;
  if (rc == ZNODEEXISTS && to_be_absent) return committed(op, committing, fail(errc::conflict, "the key " + key));
  if (rc == ZBADVERSION || (rc == ZNONODE && committing->versions.contains(key))) return compare(op, committing);
  if (rc == ZNONODE || rc == ZNODEEXISTS) return look_up(op, committing);
  committed(op, committing, zk_error(rc, key));
}

/// Which nodes are there, of those that are not compared, and which of their parents.
void ZkBackend::look_up(OpId op, std::shared_ptr<Committing> const& committing) {
  std::vector<std::string> keys, paths;
  for (auto const& key : committing->keys)
    if (!committing->versions.contains(key)) keys.push_back(key);
  for (auto const& key : keys) {
    paths.push_back(key);
    paths.push_back(parent_of(key));
  }
  session_.handle().sync(paths.front(), [](ZkReply const&) {});
  Round::ask(
      paths, [this](std::string const& where, ZkDone done) { session_.handle().exists(where, std::move(done)); },
      [this, op, committing, keys](std::vector<ZkReply> const& answers) {
        for (auto const& answer : answers)
          if (!session_.usable(op, answer)) return;
        committing->absent.clear();
        committing->orphans.clear();
        std::set<std::string> parents;
        for (std::size_t i = 0; i < keys.size(); ++i) {
          if (answers[2 * i].rc == ZOK) continue;
          committing->absent.insert(keys[i]);
          if (answers[2 * i + 1].rc == ZOK) continue;
          auto const& writes = committing->request.what.writes();
          auto const write = writes.find(keys[i]);
          bool const put = write != writes.end() && write->second;
          put ? parents.insert(parent_of(keys[i])) : committing->orphans.insert(keys[i]);
        }
        parents.empty() ? send_commit(op, committing) : make_parents(op, committing, parents);
      });
}

void ZkBackend::make_parents(OpId op, std::shared_ptr<Committing> const& committing,
                             std::set<std::string> const& parents) {
  auto const made = std::make_shared<std::map<std::string, int>>();  // of each the last answer, which is its own
  for (auto const& parent : parents)
    make_nodes(parent, [made, parent](ZkReply const& answer) { (*made)[parent] = answer.rc; });
  session_.handle().sync(*parents.begin(), [this, op, committing, made](ZkReply const& all) {
    if (!session_.usable(op, all)) return;
    for (auto const& [parent, rc] : *made)
      if (rc != ZOK && rc != ZNODEEXISTS) return committed(op, committing, zk_error(rc, parent));
    send_commit(op, committing);
  });
}

void ZkBackend::settle_commit(OpId op, std::shared_ptr<Committing> const& committing) {
  auto const where = receipt(committing->slot);
  auto const barrier = std::make_shared<ZkReply>();
  session_.handle().sync(where, [barrier](ZkReply const& through) { *barrier = through; });
  session_.handle().get(where, [this, op, committing, barrier](ZkReply const& found) {
    if (!session_.usable(op, *barrier) || !session_.usable(op, found)) return;
    if (found.rc == ZOK) receipt_nodes_.insert(committing->slot);
    bool const done = found.rc == ZOK && found.text == committing->number;
    committed(op, committing, done ? Fate::done : Fate::not_done);
  });
}

void ZkBackend::committed(OpId op, std::shared_ptr<Committing> const& committing, Result<Fate> fate) {
  session_.finish(op);
  receipts_.give_back(committing->slot);
  committing->reply(fate);
}

}  // namespace holdfast::detail

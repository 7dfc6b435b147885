#include <cstdio>

#include "common/error.hpp"
#include "zk/backend.hpp"
#include "zk/error.hpp"

// Joining a line: the entry is created and the line listed in one round trip. If its answer is lost, the entry is
// looked for, behind a barrier, and adopted or made anew.

namespace holdfast::detail {

struct ZkBackend::Joining {
  Join request;
  std::string prefix;  ///< of the entry's name, up to and with the id that nothing else has
  Reply<Joined> reply;
  OpId op = 0;
  ZkReply created;
};

void ZkBackend::join(Join request, Reply<Joined> reply) {
  char prefix[64];
  std::uint64_t const entry = ++last_entry_;
  std::snprintf(prefix, sizeof prefix, "_c_%08x-%04x-%04x-%04x-%012llx-", static_cast<unsigned>(id_ >> 32),
                static_cast<unsigned>(id_ >> 16 & 0xffff), static_cast<unsigned>(id_ & 0xffff),
                static_cast<unsigned>(entry >> 48), static_cast<unsigned long long>(entry & 0xffffffffffff));
  auto const joining = std::make_shared<Joining>(Joining{std::move(request), prefix, std::move(reply), 0, {}});
  session_.add([this, joining](OpId op, bool again) { again ? settle(op, joining) : send_join(op, joining); },
               [joining] { joining->reply(make_error_code(errc::lost)); });
}

void ZkBackend::send_join(OpId op, std::shared_ptr<Joining> const& joining) {
  Join const& request = joining->request;
  std::string const name = path(request.line, joining->prefix + std::string(marker(request.kind)));
  session_.handle().create(name, request.label, guarded(), ZOO_EPHEMERAL_SEQUENTIAL,
                           [joining](ZkReply const& created) { joining->created = created; });
  joining->op = op;
  listings_[request.line].wanted.push_back(joining);
  list_joined(request.line);
}

void ZkBackend::list_joined(std::string const& line) {
  Listings& listings = listings_[line];
  if (listings.wanted.empty() || listings.under_way == Listings::kUnderWay) return;
  ++listings.under_way;
  auto done = [this, line, joined = std::exchange(listings.wanted, {})](ZkReply const& listing) {
    auto const entries = parse_line(listing.names);
    for (auto const& joining : joined) sent_join(joining, listing, entries);
    auto const rest = listings_.find(line);
    if (--rest->second.under_way == 0 && rest->second.wanted.empty()) {
      listings_.erase(rest);
    } else {
      list_joined(line);
    }
  };
  session_.handle().children(directory(line), std::move(done));
}

void ZkBackend::sent_join(std::shared_ptr<Joining> const& joining, ZkReply const& listing, Entries const& entries) {
  OpId const op = joining->op;
  ZkReply const& created = joining->created;
  if (!session_.usable(op, created)) return;
  if (created.rc == ZNONODE) return make_directory(op, joining);
  std::string const& line = joining->request.line;
  if (created.rc != ZOK) {
    session_.finish(op);
    return joining->reply(zk_error(created.rc, directory(line)));
  }
  if (!session_.usable(op, listing)) return;
  EntryRef const self{created.text.substr(created.text.rfind('/') + 1), static_cast<std::uint64_t>(created.stat.czxid)};
  if (listing.rc == ZOK) return answer(op, joining, self, entries);
  // We may write there, but not read: what was made is removed again, and only then is that said.
  auto const why = zk_error(listing.rc, directory(line));
  session_.finish(op);
  leave(line, self, false, [joining, why](Result<void> const&) { joining->reply(why); });
}

void ZkBackend::answer(OpId op, std::shared_ptr<Joining> const& joining, EntryRef self, Entries const& entries) {
  auto ahead = ahead_of(joining->request.line, self.key, joining->request.rule, entries);
  if (!ahead) return send_join(op, joining);  // removed before we even saw it
  session_.finish(op);
  own_[joining->request.line][self.key] = self.number;
  if (guarded()) report_open_directory(joining->request.line);
  joining->reply(Joined{std::move(self), std::move(*ahead)});
}

/// The answer to an earlier sending was lost. What was sent then may still be on its way through another member; once a
/// sync on this connection is through, it has been carried out or will be refused. Only then is the look conclusive.
void ZkBackend::settle(OpId op, std::shared_ptr<Joining> const& joining) {
  std::string const where = directory(joining->request.line);
  session_.handle().sync(where, [joining](ZkReply const& barrier) { joining->created = barrier; });
  session_.handle().children(where, [this, op, joining](ZkReply const& listing) {
    if (!session_.usable(op, joining->created) || !session_.usable(op, listing)) return;
    for (auto const& name : listing.names)
      if (name.starts_with(joining->prefix)) return adopt(op, joining, name, parse_line(listing.names));
    send_join(op, joining);
  });
}

void ZkBackend::adopt(OpId op, std::shared_ptr<Joining> const& joining, std::string const& key,
                      Entries const& entries) {
  session_.handle().exists(path(joining->request.line, key), [this, op, joining, key, entries](ZkReply const& found) {
    if (!session_.usable(op, found)) return;
    if (found.rc != ZOK) return send_join(op, joining);
    answer(op, joining, {key, static_cast<std::uint64_t>(found.stat.czxid)}, entries);
  });
}

/// The root's own nodes stay; a lock's directory is a container, which the server removes when it is empty (perhaps
/// right now: then all this is done once more).
void ZkBackend::make_directory(OpId op, std::shared_ptr<Joining> const& joining) {
  std::string const where = directory(joining->request.line);
  auto const refused = std::make_shared<int>(ZOK);
  make_nodes(config_.root, [refused](ZkReply const& made) {
    if (made.rc == ZNOAUTH) *refused = made.rc;
  });
  session_.handle().create(
      where, "", guarded(), ZOO_CONTAINER, [this, op, joining, refused, where](ZkReply const& made) {
        if (!session_.usable(op, made)) return;
        if (made.rc == ZOK || made.rc == ZNODEEXISTS) return send_join(op, joining);
        session_.finish(op);
        joining->reply(zk_error(made.rc == ZNONODE && *refused != ZOK ? *refused : made.rc, where));
      });
}

/// Every node on the way, and the last one, unless it is there. A parent that may not be written to refuses what exists
/// already, too: only what comes of the last node counts.
void ZkBackend::make_nodes(std::string const& where, ZkDone done) {
  for (auto end = where.find('/', 1); !where.empty(); end = where.find('/', end + 1)) {
    session_.handle().create(where.substr(0, end), "", guarded(), ZOO_PERSISTENT, done);
    if (end == std::string::npos) break;
  }
}

/// The right to delete is a right on the parent: where everybody has it, an entry's own rights protect nothing.
void ZkBackend::report_open_directory(std::string const& line) {
  constexpr std::size_t kMost = 10'000;
  if (looked_at_.size() >= kMost) looked_at_.clear();
  if (!looked_at_.insert(line).second) return;
  session_.handle().get_acl(directory(line), [this, line](ZkReply const& reply) {
    if (reply.world_deletes)
      host_.log(LogLevel::warning, directory(line) + " lets everybody delete entries in it, whatever their own rights");
  });
}

}  // namespace holdfast::detail

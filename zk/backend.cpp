#include "zk/backend.hpp"

#include <random>

#include "common/error.hpp"
#include "common/names.hpp"
#include "zk/error.hpp"

namespace holdfast::detail {

namespace {

std::uint64_t random_id() {
  std::random_device random;
  return (static_cast<std::uint64_t>(random()) << 32) | random();
}

}  // namespace

ZkBackend::ZkBackend(Config const& config, Host& host)
    : host_(host),
      config_(config),
      id_(random_id()),
      session_(config, host,
               {.busy = [this] { return !own_.empty(); },
                .beat = [this] { beat(); },
                .resumed = [this] { watches_.resumed(); },
                .lost =
                    [this] {
                      watches_.clear();
                      own_.clear();
                      listings_.clear();
                      receipts_ = {};
                      receipt_nodes_.clear();
                    },
                .changed = [this](std::string const& path, bool deleted) { watches_.changed(path, deleted); }}),
      watches_(session_, host) {}

void ZkBackend::stop(std::function<void()> done) {
  watches_.clear();
  session_.stop(std::move(done));
}

// ---- own entries

/// Somebody may have removed an entry of ours: one read per line and beat tells.
void ZkBackend::beat() {
  for (auto const& [line, entries] : own_) verify(line);
  watches_.beat();
}

void ZkBackend::verify(std::string const& line) {
  auto const& entries = own_.at(line);
  if (entries.size() == 1) {
    EntryRef const only{entries.begin()->first, entries.begin()->second};
    return session_.handle().exists(path(line, only.key), [this, line, only](ZkReply const& reply) {
      if (reply.rc == ZNONODE) seen_gone(line, only);
    });
  }
  session_.handle().children(directory(line), [this, line, entries](ZkReply const& reply) {
    if (reply.rc != ZOK && reply.rc != ZNONODE) return;
    std::set<std::string> const there(reply.names.begin(), reply.names.end());
    for (auto const& [key, number] : entries)
      if (!there.contains(key)) seen_gone(line, {key, number});
  });
}

void ZkBackend::seen_gone(std::string const& line, EntryRef const& entry) {
  auto const entries = own_.find(line);
  if (entries == own_.end() || entries->second.erase(entry.key) == 0) return;
  if (entries->second.empty()) own_.erase(entries);
  host_.removed(line, entry);
}

void ZkBackend::leave(std::string const& line, EntryRef const& self, bool, Reply<void> reply) {
  session_.add(
      [this, line, self, reply](OpId op, bool) {
        session_.handle().remove(path(line, self.key), [this, op, line, self, reply](ZkReply const& answer) {
          if (!session_.usable(op, answer)) return;
          session_.finish(op);
          if (answer.rc != ZOK && answer.rc != ZNONODE) return reply(zk_error(answer.rc, path(line, self.key)));
          if (auto const entries = own_.find(line); entries != own_.end()) {
            entries->second.erase(self.key);
            if (entries->second.empty()) own_.erase(entries);
          }
          reply({});
        });
      },
      [reply] { reply(make_error_code(errc::lost)); });
}

// ---- who is ahead

std::optional<Ahead> ZkBackend::ahead_of(std::string const& line, std::string const& key, Rule rule,
                                         Entries const& entries) const {
  auto self = std::find_if(entries.begin(), entries.end(), [&](auto const& entry) { return entry.key == key; });
  if (self == entries.end()) return std::nullopt;
  auto const mine = own_.find(line);
  Ahead ahead;
  while (self != entries.begin()) {
    --self;
    if (!rule.blocked_by(self->kind)) continue;
    if (ahead.nearest.size() == rule.permits) {
      ahead.more = true;
      break;
    }
    // A listing has no numbers; of a stranger's entry the name alone says which it is.
    EntryRef ref{self->key, 0};
    if (mine != own_.end())
      if (auto const own = mine->second.find(self->key); own != mine->second.end()) ref.number = own->second;
    ahead.nearest.push_back(std::move(ref));
  }
  return ahead;
}

WatchId ZkBackend::await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) {
  return watches_.add(path(line, entry.key), [gone = std::move(gone)] { gone(false); });
}

Result<std::unique_ptr<Backend>> make_zk_backend(Config const& config, Host& host) {
  if (config.tls) return fail(errc::not_supported, "tls: the ZooKeeper client library of this build has no TLS");
  return std::make_unique<ZkBackend>(config, host);
}

}  // namespace holdfast::detail

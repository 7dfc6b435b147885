#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/backend.hpp"
#include "common/slots.hpp"
#include "zk/entry_name.hpp"
#include "zk/session.hpp"
#include "zk/watches.hpp"

namespace holdfast::detail {

/// Lines in ZooKeeper: `<root>/<name>/_c_<uuid>-lock-<sequence>`, each entry an ephemeral sequential node whose data is
/// the owner's label and whose czxid is the fence. Beside them `<root>/@commit-<id>-<slot>`, ephemeral: the number of
/// the last commit that was done in a slot of this client.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class ZkBackend final : public Backend {
 public:
  ZkBackend(Config const& config, Host& host);

  void start() override { session_.start(); }
  void stop(std::function<void()> done) override;
  void join(Join request, Reply<Joined> reply) override;
  void look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) override;
  WatchId await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) override;
  void forget(WatchId watch) override { watches_.forget(watch); }
  void leave(std::string const& line, EntryRef const& self, bool was_first, Reply<void> reply) override;
  void commit(Guarded request, Reply<Fate> reply) override;
  void read(std::string const& key, Reply<std::optional<std::string>> reply) override;
  void list(std::string const& line, Reply<std::vector<EntryInfo>> reply) override;
  void names(Reply<std::vector<std::string>> reply) override;
  void check(std::string const& line, EntryRef const& entry, Reply<bool> reply) override;

 private:
  using OpId = ZkSession::OpId;
  using Entries = std::vector<LineEntry>;
  struct Joining;

  /// Listings for the sake of joins of one line. Few are under way at a time, and each serves all whose create was sent
  /// before it: thousands who join together do not each have the whole line sent to them.
  struct Listings {
    static constexpr int kUnderWay = 4;
    int under_way = 0;
    std::vector<std::shared_ptr<Joining>> wanted;
  };

  std::string directory(std::string const& line) const { return config_.root + "/" + line; }
  std::string path(std::string const& line, std::string const& key) const { return directory(line) + "/" + key; }
  std::string receipt(std::uint32_t slot) const;
  bool guarded() const { return !config_.user.empty(); }

  void send_join(OpId op, std::shared_ptr<Joining> const& joining);
  void list_joined(std::string const& line);
  void sent_join(std::shared_ptr<Joining> const& joining, ZkReply const& listing, Entries const& entries);
  void settle(OpId op, std::shared_ptr<Joining> const& joining);
  void adopt(OpId op, std::shared_ptr<Joining> const& joining, std::string const& key, Entries const& entries);
  void make_directory(OpId op, std::shared_ptr<Joining> const& joining);
  void make_nodes(std::string const& path, ZkDone done);

  struct Committing;
  void begin_commit(OpId op, std::shared_ptr<Committing> const& committing);
  void compare(OpId op, std::shared_ptr<Committing> const& committing);
  void send_commit(OpId op, std::shared_ptr<Committing> const& committing);
  void commit_refused(OpId op, std::shared_ptr<Committing> const& committing, std::string const& key, int rc);
  void look_up(OpId op, std::shared_ptr<Committing> const& committing);
  void make_parents(OpId op, std::shared_ptr<Committing> const& committing, std::set<std::string> const& parents);
  void settle_commit(OpId op, std::shared_ptr<Committing> const& committing);
  void committed(OpId op, std::shared_ptr<Committing> const& committing, Result<Fate> fate);

  void report_open_directory(std::string const& line);
  void answer(OpId op, std::shared_ptr<Joining> const& joining, EntryRef self, Entries const& entries);
  std::optional<Ahead> ahead_of(std::string const& line, std::string const& key, Rule rule,
                                Entries const& entries) const;
  template <class T>
  void ask(std::function<void(ZkDone)> request, std::function<Result<T>(ZkReply const&)> read, Reply<T> reply);

  void beat();
  void verify(std::string const& line);
  void seen_gone(std::string const& line, EntryRef const& entry);

  Host& host_;
  Config const config_;
  std::uint64_t const id_;  ///< of this client, in its entries' names
  std::uint64_t last_entry_ = 0;
  ZkSession session_;
  ZkWatches watches_;
  std::map<std::string, std::map<std::string, std::uint64_t>> own_;  ///< line, key: number
  std::map<std::string, Listings> listings_;
  Slots receipts_;                         ///< of this session's commits under way
  std::set<std::uint32_t> receipt_nodes_;  ///< slots whose node is there
  std::set<std::string> looked_at_;        ///< lines whose directory's rights were looked at
};

Result<std::unique_ptr<Backend>> make_zk_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

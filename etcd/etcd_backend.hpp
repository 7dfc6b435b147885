#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/backend.hpp"
#include "etcd/keeper.hpp"
#include "etcd/layout.hpp"
#include "etcd/line.hpp"
#include "etcd/members.hpp"
#include "etcd/watches.hpp"

namespace holdfast::detail::etcd {

/// The backend for `etcd:`: entries are leased keys, ordered by create revision, which is also their number.
///
/// In five files: the session and what is under way (etcd_backend.cpp), joining (etcd_join.cpp), commits
/// (etcd_commit.cpp), the other verbs (etcd_verbs.cpp) and waiting (etcd_waiting.cpp).
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class EtcdBackend final : public Backend {
 public:
  EtcdBackend(Config const& config, Host& host);

  void start() override { members_.start(); }
  void stop(std::function<void()> done) override;
  void join(Join request, Reply<Joined> reply) override;
  void look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) override;
  WatchId await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) override;
  void forget(WatchId watch) override;
  void leave(std::string const& line, EntryRef const& self, bool was_first, Reply<void> reply) override;
  void commit(Guarded request, Reply<Fate> reply) override;
  void read(std::string const& key, Reply<std::optional<std::string>> reply) override;
  void list(std::string const& line, Reply<std::vector<EntryInfo>> reply) override;
  void names(Reply<std::vector<std::string>> reply) override;
  void check(std::string const& line, EntryRef const& entry, Reply<bool> reply) override;

 private:
  using OpId = std::uint64_t;

  /// A verb that has not been answered yet.
  struct Op {
    std::function<void(OpId)> send;
    std::function<void(error_code)> fail;
    bool compares_guard = false;  ///< so that a copy of it can be barred
    bool sent = false;            ///< on this connection
    bool doubted = false;         ///< sent on an earlier one: it may or may not have had, or have yet, its effect
    TimePoint since{};
  };

  struct Wait {
    WatchId id;
    EntryRef entry;
    std::function<void(bool)> gone;
    bool follows;  ///< by the watch over the whole line
  };

  struct Joining;
  using Unplaced = std::vector<std::pair<std::shared_ptr<Joining>, EntryRef>>;

  /// What we have to do with one line.
  struct Line {
    Slots slots;
    std::map<EntryRef, std::uint32_t> own;  ///< and their slots
    View view;
    Unplaced unplaced;                          ///< joins of which it is not known yet who is ahead
    bool placing = false;                       ///< a listing that will tell is on its way, for others than these
    std::multimap<std::string, Wait> waits;     ///< by the entry's name
    Watches::Id whole = 0;                      ///< the watch over the whole line; 0: none
    unsigned idle = 0;                          ///< departures that it told while nobody waited by it
    std::map<std::string, Watches::Id> single;  ///< watches over one entry each
    bool unused() const { return slots.none_taken() && waits.empty() && whole == 0 && own.empty(); }
  };

  // The session, and what is under way.
  void connected();
  void disconnected();
  void opened(SessionInfo info);
  void alive();
  void lost();
  void beaten();
  void revoke();
  void add(Op op);
  void pump();
  void watchdog();
  void again(OpId id);
  bool finish(OpId id);
  bool trouble(OpId id, Failure const& why);
  template <class T>
  static std::function<void(error_code)> failing(Reply<T> const& reply) {
    return [reply](error_code why) { reply({boost::system::in_place_error, why}); };
  }

  // Joining.
  void send_join(OpId id, std::shared_ptr<Joining> const& joining);
  void join_answered(OpId id, std::shared_ptr<Joining> const& joining, pb::TxnResponse const& response);
  void settle(OpId id, std::shared_ptr<Joining> const& joining);
  void joined(OpId id, std::shared_ptr<Joining> const& joining, std::uint64_t number, std::optional<Listing> listing);
  void place(std::string const& name);
  void placed(std::string const& name, Unplaced const& joins, pb::RangeResponse const& response);
  void fail_unplaced(std::map<std::string, Line> const& lines);
  void end_join(std::shared_ptr<Joining> const& joining);

  // Commits.
  struct Committing;
  void send_commit(OpId id, std::shared_ptr<Committing> const& committing);
  void commit_refused(OpId id, std::shared_ptr<Committing> const& committing, pb::TxnResponse const& response);
  void settle_commit(OpId id, std::shared_ptr<Committing> const& committing);
  void committed(OpId id, std::shared_ptr<Committing> const& committing, Result<Fate> fate);

  // The other verbs.
  void ask(pb::RangeRequest request, std::function<void(error_code)> fail,
           std::function<void(OpId, pb::RangeResponse const&)> answered);
  void look_by_reading(std::string const& line, EntryRef const& self, Rule rule, bool stale_is_fine, std::int64_t limit,
                       Reply<std::optional<Ahead>> reply);
  void left(std::string const& line, EntryRef const& self, std::int64_t revision);
  void find_removed(std::set<std::string> const& keys, std::vector<std::pair<std::string, EntryRef>> const& asked);

  // Waiting.
  void watch_whole(std::string const& name, Line& line);
  void watch_single(std::string const& name, Line& line, std::string const& entry);
  void whole_synced(std::string const& name, Watches::Present const& present);
  void single_synced(std::string const& name, std::string const& entry, Watches::Present const& present);
  void deleted(std::string const& name, std::string const& key, std::int64_t revision);
  void fire(std::string const& name, std::function<bool(EntryRef const&)> const& which);
  void drop_single(Line& line, std::string const& entry);
  void count_idle(std::string const& name);
  std::string entry_of(std::string const& line, std::string const& key) const {
    return key.substr(layout_.root().size() + line.size() + 2);
  }

  Line& line(std::string const& name) { return lines_[name]; }
  void tidy(std::string const& name);
  pb::RangeRequest range(KeyRange range) const;

  Host& host_;
  Layout const layout_;
  Members members_;
  Keeper keeper_;
  Watches watches_;
  bool usable_ = false;  ///< the lease is known to live on this connection
  std::function<void()> stopped_;
  bool stopping_ = false;
  OpId last_op_ = 0;
  std::map<OpId, Op> ops_;
  std::deque<OpId> unsent_;
  std::size_t under_way_ = 0;
  TimerId watchdog_ = 0;
  std::map<std::string, Line> lines_;
  Slots receipts_;  ///< of this lease's commits under way
  WatchId last_wait_ = 0;
  std::map<WatchId, std::pair<std::string, std::string>> places_;  ///< of waits: line, and the entry's name
};

}  // namespace holdfast::detail::etcd

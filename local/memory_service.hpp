#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/backend.hpp"

namespace holdfast::detail {

/// A coordination service in memory: sessions with leases, and ordered lines of entries that go with their session.
///
/// It behaves as ZooKeeper and etcd do where that matters to a client: a session that is not renewed in time expires,
/// together with its entries; numbers grow with every entry and are never used again; a join carries its session's
/// guard, and is refused once the guard has moved on, so that a request delivered late does no harm. Behind `memory:`
/// it runs on the real clock; the simulation runs it on a virtual one.
///
/// Thread safety: distinct objects safe; shared objects safe. Notices are given inside a lock: they must only be passed
/// on.
class MemoryService {
 public:
  using SessionId = std::uint64_t;
  using Clock = std::function<TimePoint()>;

  /// Tells a session that an entry it watches is gone.
  using Notice = std::function<void(std::string const& line, EntryRef const& entry)>;

  struct Opened {
    SessionId session = 0;
    std::uint64_t guard = 0;
  };
  struct Renewed {
    std::vector<std::pair<std::string, EntryRef>> removed;  ///< entries of this session that somebody else took away
  };
  struct Settled {
    std::uint64_t guard = 0;
    std::optional<Joined> found;
  };

  /// What came of a commit. `barred`: the guard has moved on, nothing was done.
  struct Committed {
    enum class What { done, barred, no_entry, conflict } what;
    std::string key{};  ///< of the condition that was not met
  };
  /// Where a commit leaves proof that it was done: one of its session's slots, and its own number.
  struct Receipt {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;
  };
  struct SettledCommit {
    std::uint64_t guard = 0;
    bool done = false;
  };

  /// What has just become of an entry, for those who check the service's clients.
  struct Change {
    enum class What { joined, left, expired, removed } what;
    std::string const& line;
    EntryInfo const& entry;
    SessionId owner = 0;
    SessionId by = 0;  ///< whose request it was; 0: nobody's
  };
  using Observer = std::function<void(Change const&)>;
  using CommitObserver = std::function<void(std::string const& line, EntryRef const& entry, Commit const& what)>;

  explicit MemoryService(Clock clock) : clock_(std::move(clock)) {}

  /// The service that `memory:name` stands for, shared by all clients of this process; it lasts as long as the process.
  static std::shared_ptr<MemoryService> named(std::string const& name);

  // What clients ask. An unknown or expired session gets `lost`.
  Opened open(std::chrono::milliseconds ttl, Notice notice);
  Result<Renewed> renew(SessionId session);
  void close(SessionId session);
  /// nullopt: the guard has moved on, nothing was done. `claim` is the client's own number for this join.
  Result<std::optional<Joined>> join(SessionId session, std::uint64_t guard, std::uint64_t claim, Join const& request);
  /// Moves the guard on, so that no earlier join can take effect any more, and tells whether this one did.
  Result<Settled> settle(SessionId session, std::uint64_t claim, Join const& request);
  Result<std::optional<Ahead>> look(SessionId session, std::string const& line, EntryRef const& self, Rule rule);
  /// If it is still there, the session's notice follows once it is not.
  enum class Seen { there, gone };
  Result<Seen> watch(SessionId session, std::string const& line, EntryRef const& entry);
  Result<void> leave(SessionId session, std::string const& line, EntryRef const& self);
  Result<Committed> commit(SessionId session, std::uint64_t guard, Receipt receipt, Guarded const& request);
  /// Moves the guard on, so that no earlier commit can take effect any more, and tells whether this one did.
  Result<SettledCommit> settle_commit(SessionId session, Receipt receipt);
  std::optional<std::string> read(std::string const& key);
  std::vector<EntryInfo> list(std::string const& line);
  std::vector<std::string> names();
  bool check(std::string const& line, EntryRef const& entry);

  // What operators and mishaps do.
  void tick();                                                  ///< expires what is due
  void expire_all();                                            ///< every session, now
  void remove(std::string const& line, EntryRef const& entry);  ///< behind its owner's back
  void set_outage(bool outage);                                 ///< nobody gets through; leases run on
  bool outage();
  void ignore_guards() { ignores_guards_ = true; }                      ///< as a service that has none
  void observe(Observer observer) { observer_ = std::move(observer); }  ///< told inside a lock, as notices are
  void observe_commits(CommitObserver observer) { commit_observer_ = std::move(observer); }
  std::size_t session_count();
  TimePoint next_expiry();

 private:
  struct Session {
    std::chrono::milliseconds ttl{};
    TimePoint expires{};
    std::uint64_t guard = 0;
    Notice notice;
    Renewed renewed;
    std::map<std::uint32_t, std::uint64_t> receipts;  ///< by slot
  };
  struct Entry {
    EntryInfo info;
    SessionId session = 0;
    std::uint64_t claim = 0;
    std::vector<SessionId> watchers;
  };
  using Line = std::map<std::uint64_t, Entry>;  ///< by number, which is the order of joining

  Session* find(SessionId session);
  void expire_due();
  void end(SessionId session);
  void erase(std::string const& line, Line::iterator entry, Change::What how, SessionId by);
  Line::iterator find(Line& line, EntryRef const& entry);
  static Ahead ahead_of(Line const& line, Line::const_iterator self, Rule rule);

  Clock const clock_;
  std::mutex mutex_;
  std::uint64_t revision_ = 0;
  std::map<SessionId, Session> sessions_;
  std::map<std::string, Line> lines_;
  std::map<std::string, std::string> values_;
  bool outage_ = false;
  bool ignores_guards_ = false;
  Observer observer_;
  CommitObserver commit_observer_;
};

}  // namespace holdfast::detail

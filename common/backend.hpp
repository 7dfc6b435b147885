#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/commit.hpp>
#include <holdfast/config.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/rule.hpp"

// The seam between the recipes and the services. A service is a set of ordered lines of entries, each entry living as
// long as its owner's session. Recipes know nothing of services; backends know nothing of recipes.
//
// Everything here happens inside the client's monitor (common/core.hpp): verbs are called there, and replies and events
// must be given there. A backend with threads of its own gets in with Host::post; one that can answer at once uses
// Host::defer, so that no reply runs inside the verb that asked for it.

namespace holdfast::detail {

/// Mind Reply<bool>: in Boost 1.81 a Result<bool> that is copied from a variable, or moved from a constant, as lambda
/// captures do, turns into `true`. Pass it on at once, or capture something else.
template <class T>
using Reply = std::function<void(Result<T>)>;

struct Join {
  std::string line;  ///< the lock's name, encoded (common/names.hpp): safe as one path segment
  Kind kind = Kind::lock;
  Rule rule = kExclusive;
  std::string label;
  bool only_if_free = false;  ///< answer `busy`, and leave nothing, if the rule would not grant at once
};

struct Joined {
  EntryRef self;
  Ahead ahead;
};

struct EntryInfo {
  EntryRef ref;
  Kind kind = Kind::lock;
  std::string label;
  std::optional<std::chrono::system_clock::time_point> since;
};

/// A session that was opened.
struct SessionInfo {
  std::string place;                             ///< names service and root, for sequencers
  std::optional<std::chrono::milliseconds> ttl;  ///< the granted lease; none: the session lives as long as the process
  TimePoint sent{};                              ///< when the request that opened or last proved it was sent
};

/// What the one who asks for a commit and the backend tell each other while it is under way.
struct Ticket {
  bool wanted = true;  ///< somebody waits for it: otherwise it is not to be sent (any more)
  bool sent = false;   ///< it may have reached the service
};

/// A commit, and the entry that must be in its line for it to happen.
struct Guarded {
  std::string line;
  EntryRef self;
  Commit what;
  std::shared_ptr<Ticket> ticket;
};

enum class Fate {
  done,
  not_done,  ///< for certain, and no copy of it is on its way: it may be sent anew
};

using WatchId = std::uint64_t;
using TimerId = std::uint64_t;

/// One client's session with a service, opened again by the backend itself whenever it is lost.
///
/// Every verb is answered exactly once, with a definite result: what the service said, or `lost` when the session ended
/// first. While the connection is down verbs wait; a backend repeats what is idempotent and finds out the fate of what
/// is not, so that a lost reply never reaches a recipe. Errors other than `lost` and `busy` are final (denied, corrupt,
/// not_supported, unavailable for a broken store).
class Backend {
 public:
  virtual ~Backend() = default;

  /// Begins to open a session; Host::up follows, or Host::failed with the reason each time an attempt fails.
  virtual void start() = 0;

  /// Ends the session and with it all its entries; `done` when that is confirmed. No event follows.
  virtual void stop(std::function<void()> done) = 0;

  /// The end was not confirmed, and nobody will run the loop for it any more: lets go of what keeps the session alive.
  virtual void abandon() {}

  /// Appends an entry and tells who is ahead of it.
  virtual void join(Join request, Reply<Joined> reply) = 0;

  /// Who is ahead of an own entry now; nullopt if that entry is no longer there.
  virtual void look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) = 0;

  /// Calls `gone` once when an entry that a join or look of this line has just shown is there no more; no departure in
  /// between is missed. `nobody_ahead`: the backend knows that nothing is left ahead of whoever came next after that
  /// entry.
  virtual WatchId await_gone(std::string const& line, EntryRef const& entry,
                             std::function<void(bool nobody_ahead)> gone) = 0;

  /// Forgets a watch; its callback does not run any more.
  virtual void forget(WatchId watch) = 0;

  /// Removes exactly this entry; fine if it is no longer there. `was_first`: nobody was ahead of it (it held an
  /// exclusive lock).
  virtual void leave(std::string const& line, EntryRef const& self, bool was_first, Reply<void> reply) = 0;

  /// Does what the commit says, all or nothing, if the entry is in its line and the commit's conditions are met. A lost
  /// answer is looked into, with copies barred, but nothing is sent again. Errors: lost (no such entry), conflict,
  /// unknown_outcome (the session ended before its fate was known).
  virtual void commit(Guarded request, Reply<Fate> reply) = 0;

  /// The value of a key that commits write, by a read that is not stale; nullopt: absent.
  virtual void read(std::string const& key, Reply<std::optional<std::string>> reply) = 0;

  /// All entries of a line in order.
  virtual void list(std::string const& line, Reply<std::vector<EntryInfo>> reply) = 0;

  /// All lines that have entries.
  virtual void names(Reply<std::vector<std::string>> reply) = 0;

  /// Whether this very entry is in the line, by a read that is not stale.
  virtual void check(std::string const& line, EntryRef const& entry, Reply<bool> reply) = 0;
};

/// What a backend is given: the events it reports, time, timers and its way into the monitor.
class Host {
 public:
  virtual ~Host() = default;

  // Events of the session.
  virtual void up(SessionInfo info) = 0;    ///< a new session is open
  virtual void proven(TimePoint sent) = 0;  ///< the session lives until sent + ttl (drift is ours)
  virtual void suspect() = 0;               ///< the connection is down, the session may live
  virtual void resumed() = 0;               ///< connected again, same session
  virtual void lost() = 0;                  ///< the session is gone, and its entries with it
  virtual void removed(std::string const& line,
                       EntryRef const& entry) = 0;  ///< an own entry was removed behind our back
  virtual void failed(error_code why) = 0;          ///< no session, or none could be reached again; trying on

  // Time.
  virtual TimePoint now() const noexcept = 0;
  virtual TimerId at(TimePoint when, std::function<void()> what) = 0;  ///< runs `what` in the monitor
  virtual void cancel(TimerId timer) = 0;

  // Ways in.
  virtual void defer(std::function<void()> what) = 0;  ///< from inside the monitor: run before it is left
  virtual void post(std::function<void()> what) = 0;   ///< from any thread: run in the monitor, soon
  virtual boost::asio::io_context& loop() = 0;         ///< for descriptors; run by the client's own thread

  virtual void log(LogLevel level, std::string message) = 0;
};

/// Makes the backend that `config.scheme` names. Errors: not_supported if this build has none of that name.
Result<std::unique_ptr<Backend>> make_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/backend.hpp"
#include "common/slots.hpp"
#include "local/memory_service.hpp"

namespace holdfast::detail {

/// What lies between a client and the MemoryService: nothing much behind `memory:`, a network with all its mishaps in
/// the simulation.
///
/// Used and heard inside the client's monitor. After `down` no reply of the old connection arrives any more, though
/// requests sent on it may still reach the service.
class MemoryWire {
 public:
  using Reply = std::function<void()>;                   ///< what the client does with the answer
  using Request = std::function<Reply(MemoryService&)>;  ///< what the service does, giving the answer

  struct Events {
    std::function<void()> up;
    std::function<void()> down;
  };

  virtual ~MemoryWire() = default;
  virtual void connect(Events events) = 0;  ///< from now on, for ever anew
  virtual void send(Request request) = 0;
  /// A way for the service to call back; passes through the same mishaps.
  virtual MemoryService::Notice notice(MemoryService::Notice at_client) = 0;
};

/// The client's side of a MemoryService: one session, renewed at a third of its lease, opened anew when lost.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class MemoryBackend final : public Backend {
 public:
  MemoryBackend(Config const& config, Host& host, std::unique_ptr<MemoryWire> wire);

  void start() override;
  void stop(std::function<void()> done) override;
  void join(Join request, Reply<Joined> reply) override;
  void look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) override;
  WatchId await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) override;
  void forget(WatchId watch) override { watches_.erase(watch); }
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
    std::function<void(OpId, bool again)> send;  ///< `again`: an earlier sending may or may not have had its effect
    std::function<void()> lost;
    bool sent = false;
  };
  struct Watch {
    std::string line;
    EntryRef entry;
    std::function<void(bool)> gone;
  };

  void add(Op op);
  void send(OpId id, Op& op);
  void send_again();
  bool finish(OpId id) { return ops_.erase(id) != 0; }
  template <class T>
  void ask(std::function<Result<T>(MemoryService&)> question, Reply<T> reply);
  void send_join(OpId id, std::uint64_t claim, Join const& request, Reply<Joined> const& reply);
  void send_settle(OpId id, std::uint64_t claim, Join const& request, Reply<Joined> const& reply);
  struct Committing;
  void send_commit(OpId id, std::shared_ptr<Committing> const& committing);
  void settle_commit(OpId id, std::shared_ptr<Committing> const& committing);
  void committed(OpId id, std::shared_ptr<Committing> const& committing, Result<Fate> fate);
  void send_watch(WatchId id);
  void fire(std::string const& line, EntryRef const& entry);

  void connected();
  void disconnected();
  void open_session();
  void renew(bool first);
  void session_lost(MemoryService::SessionId which);

  Host& host_;
  std::unique_ptr<MemoryWire> wire_;
  std::string const place_;
  std::chrono::milliseconds const ttl_;
  bool connected_ = false;
  bool usable_ =
      false;  ///< the session is known to live on this connection, and what the last one left undone was taken up
  bool stopping_ = false;
  MemoryService::SessionId session_ = 0;
  std::uint64_t guard_ = 0;
  TimerId beat_ = 0;
  OpId last_op_ = 0;
  std::map<OpId, Op> ops_;
  Slots receipts_;  ///< of this session's commits under way
  WatchId last_watch_ = 0;
  std::map<WatchId, Watch> watches_;
};

std::unique_ptr<Backend> make_memory_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

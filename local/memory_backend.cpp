#include "local/memory_backend.hpp"

#include "common/door.hpp"
#include "common/error.hpp"

namespace holdfast::detail {

using namespace std::chrono_literals;

MemoryBackend::MemoryBackend(Config const& config, Host& host, std::unique_ptr<MemoryWire> wire)
    : host_(host), wire_(std::move(wire)), place_("memory:" + config.root), ttl_(config.ttl.value_or(15s)) {}

void MemoryBackend::start() {
  wire_->connect({[this] { connected(); }, [this] { disconnected(); }});
}

void MemoryBackend::stop(std::function<void()> done) {
  stopping_ = true;
  host_.cancel(std::exchange(beat_, 0));
  ops_.clear();
  watches_.clear();
  if (session_ == 0) return host_.defer(std::move(done));
  if (!connected_) return;  // the lease will have to end it
  wire_->send([id = session_, done](MemoryService& service) {
    service.close(id);
    return done;
  });
}

// ---- the session

void MemoryBackend::connected() {
  if (stopping_) return;
  connected_ = true;
  session_ == 0 ? open_session() : renew(true);
}

void MemoryBackend::disconnected() {
  connected_ = usable_ = false;
  host_.cancel(std::exchange(beat_, 0));
  if (stopping_) return;
  if (session_ == 0) return host_.failed(fail(errc::unavailable, "no answer from " + place_));
  host_.suspect();
}

void MemoryBackend::open_session() {
  auto const notice = wire_->notice([this](std::string const& line, EntryRef const& entry) { fire(line, entry); });
  wire_->send([this, notice, ttl = ttl_, sent = host_.now()](MemoryService& service) {
    auto const opened = service.open(ttl, notice);
    return [this, opened, sent] {
      if (stopping_) return;
      session_ = opened.session;
      guard_ = opened.guard;
      usable_ = true;
      host_.up({place_, ttl_, sent});
      beat_ = host_.at(sent + ttl_ / 3, [this] { renew(false); });
    };
  });
}

/// `first`: on a new connection; what was under way on the old one is taken up again once the session is known to live.
void MemoryBackend::renew(bool first) {
  beat_ = 0;
  wire_->send([this, first, id = session_, sent = host_.now()](MemoryService& service) {
    auto const reply = service.renew(id);
    return [this, first, id, reply, sent] {
      if (stopping_ || id != session_) return;
      if (!reply) return session_lost(id);
      host_.proven(sent);
      host_.cancel(beat_);
      beat_ = host_.at(sent + ttl_ / 3, [this] { renew(false); });
      if (first) {
        usable_ = true;
        host_.resumed();
        send_again();
        for (auto const& [watch_id, watch] : watches_) send_watch(watch_id);
      }
      // Only now: what is asked on account of this is not to be taken for something sent on the old connection.
      for (auto const& [line, entry] : reply->removed) host_.removed(line, entry);
    };
  });
}

/// An answer to an older session's question says nothing of this one.
void MemoryBackend::session_lost(MemoryService::SessionId which) {
  if (session_ == 0 || which != session_) return;
  session_ = 0;
  usable_ = false;
  host_.cancel(std::exchange(beat_, 0));
  watches_.clear();
  receipts_ = {};
  auto const ops = std::exchange(ops_, {});
  host_.lost();
  for (auto const& [id, op] : ops) op.lost();
  if (connected_) open_session();
}

// ---- verbs

void MemoryBackend::add(Op op) {
  if (session_ == 0) return host_.defer(op.lost);
  OpId const id = ++last_op_;
  auto const place = ops_.emplace(id, std::move(op)).first;
  if (usable_) send(id, place->second);
}

/// On a new connection. An op may end as it is taken up.
void MemoryBackend::send_again() {
  std::vector<OpId> all;
  for (auto const& [id, op] : ops_) all.push_back(id);
  for (OpId const id : all)
    if (auto const op = ops_.find(id); op != ops_.end()) send(id, op->second);
}

void MemoryBackend::send(OpId id, Op& op) {
  bool const again = std::exchange(op.sent, true);
  auto const how = op.send;  // the op may be gone by the time this returns
  how(id, again);
}

/// For what can be asked twice without harm.
template <class T>
void MemoryBackend::ask(std::function<Result<T>(MemoryService&)> question, Reply<T> reply) {
  Op op;
  op.lost = [reply] { reply({boost::system::in_place_error, make_error_code(errc::lost)}); };
  op.send = [this, question = std::move(question), reply](OpId id, bool) {
    wire_->send([this, id, question, reply, session = session_](MemoryService& service) {
      Result<T> result = question(service);
      return [this, id, reply, session, result = std::move(result)] {
        if (!result && result.error() == errc::lost) return session_lost(session);
        if (finish(id)) reply(result);
      };
    });
  };
  add(std::move(op));
}

void MemoryBackend::join(Join request, Reply<Joined> reply) {
  Op op;
  op.lost = [reply] { reply({boost::system::in_place_error, make_error_code(errc::lost)}); };
  op.send = [this, claim = last_op_ + 1, request = std::move(request), reply](OpId id, bool again) {
    again ? send_settle(id, claim, request, reply) : send_join(id, claim, request, reply);
  };
  add(std::move(op));
}

void MemoryBackend::send_join(OpId id, std::uint64_t claim, Join const& request, Reply<Joined> const& reply) {
  wire_->send([this, id, claim, request, reply, session = session_, guard = guard_](MemoryService& service) {
    auto const result = service.join(session, guard, claim, request);
    return [this, id, claim, request, reply, session, result] {
      if (!result && result.error() == errc::lost) return session_lost(session);
      if (result && !*result) {
        if (ops_.contains(id)) send_join(id, claim, request, reply);  // refused by an old guard: nothing was done
        return;
      }
      if (!finish(id)) return;
      result ? reply(**result) : reply(result.error());
    };
  });
}

void MemoryBackend::send_settle(OpId id, std::uint64_t claim, Join const& request, Reply<Joined> const& reply) {
  wire_->send([this, id, claim, request, reply, session = session_](MemoryService& service) {
    auto const result = service.settle(session, claim, request);
    return [this, id, claim, request, reply, session, result] {
      if (!result) return session_lost(session);
      if (session != session_) return;
      guard_ = std::max(guard_, result->guard);
      if (!result->found) {
        if (ops_.contains(id)) send_join(id, claim, request, reply);
        return;
      }
      if (finish(id)) reply(*result->found);
    };
  });
}

void MemoryBackend::look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) {
  ask<std::optional<Ahead>>(
      [id = session_, line, self, rule](MemoryService& service) { return service.look(id, line, self, rule); },
      std::move(reply));
}

void MemoryBackend::leave(std::string const& line, EntryRef const& self, bool, Reply<void> reply) {
  ask<void>([id = session_, line, self](MemoryService& service) { return service.leave(id, line, self); },
            std::move(reply));
}

void MemoryBackend::read(std::string const& key, Reply<std::optional<std::string>> reply) {
  ask<std::optional<std::string>>([key](MemoryService& service) { return service.read(key); }, std::move(reply));
}

void MemoryBackend::list(std::string const& line, Reply<std::vector<EntryInfo>> reply) {
  ask<std::vector<EntryInfo>>([line](MemoryService& service) { return service.list(line); }, std::move(reply));
}

void MemoryBackend::names(Reply<std::vector<std::string>> reply) {
  ask<std::vector<std::string>>([](MemoryService& service) { return service.names(); }, std::move(reply));
}

void MemoryBackend::check(std::string const& line, EntryRef const& entry, Reply<bool> reply) {
  ask<bool>([line, entry](MemoryService& service) { return service.check(line, entry); }, std::move(reply));
}

// ---- watches

WatchId MemoryBackend::await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) {
  WatchId const id = ++last_watch_;
  watches_.emplace(id, Watch{line, entry, std::move(gone)});
  if (usable_) send_watch(id);
  return id;
}

/// Registers a watch, and learns in the same round trip whether the entry had gone before.
void MemoryBackend::send_watch(WatchId id) {
  Watch const& watch = watches_.at(id);
  wire_->send([this, session = session_, line = watch.line, entry = watch.entry](MemoryService& service) {
    auto const seen = service.watch(session, line, entry);
    return [this, line, entry, session, seen] {
      if (!seen) return session_lost(session);
      if (*seen == MemoryService::Seen::gone) fire(line, entry);
    };
  });
}

void MemoryBackend::fire(std::string const& line, EntryRef const& entry) {
  std::vector<std::function<void(bool)>> told;
  std::erase_if(watches_, [&](auto& each) {
    if (each.second.line != line || each.second.entry != entry) return false;
    told.push_back(std::move(each.second.gone));
    return true;
  });
  for (auto const& gone : told) host_.defer([gone] { gone(false); });
}

// ---- memory: itself

namespace {

constexpr auto kOutagePoll = 20ms;

/// No network: the service is asked on the spot, unless an outage was ordered.
class DirectWire final : public MemoryWire {
 public:
  DirectWire(Host& host, std::shared_ptr<MemoryService> service)
      : host_(host), service_(std::move(service)), door_(std::make_shared<Door>(host)) {}
  DirectWire(DirectWire const&) = delete;
  ~DirectWire() override { door_->shut(); }

  void connect(Events events) override {
    events_ = std::move(events);
    if (service_->outage()) host_.defer(events_.down);
    try_connect();
  }

  void send(Request request) override {
    if (!up_) return;
    if (service_->outage()) {
      up_ = false;
      host_.defer(events_.down);
      host_.at(host_.now() + kOutagePoll, [this] { try_connect(); });
      return;
    }
    host_.defer(request(*service_));
  }

  MemoryService::Notice notice(MemoryService::Notice at_client) override {
    return [at_client = std::move(at_client), door = door_](std::string const& line, EntryRef const& entry) {
      door->post([at_client, door, line, entry] {
        if (door->open()) at_client(line, entry);
      });
    };
  }

 private:
  void try_connect() {
    up_ = !service_->outage();
    if (up_) return host_.defer(events_.up);
    host_.at(host_.now() + kOutagePoll, [this] { try_connect(); });
  }

  Host& host_;
  std::shared_ptr<MemoryService> const service_;
  Events events_;
  bool up_ = false;
  std::shared_ptr<Door> const door_;
};

}  // namespace

std::unique_ptr<Backend> make_memory_backend(Config const& config, Host& host) {
  return std::make_unique<MemoryBackend>(config, host,
                                         std::make_unique<DirectWire>(host, MemoryService::named(config.root)));
}

}  // namespace holdfast::detail

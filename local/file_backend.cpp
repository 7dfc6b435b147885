#include "local/file_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "common/error.hpp"
#include "local/file_mutex.hpp"
#include "local/file_store.hpp"
#include "local/file_waits.hpp"
#include "local/file_watch.hpp"

namespace holdfast::detail {

namespace file {
namespace {

using boost::system::in_place_error;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultTtl{15000};
constexpr milliseconds kShortestBeat{100};
constexpr milliseconds kOpenAgain{1000};

error_code lost() { return make_error_code(errc::lost); }

class FileBackend final : public Backend, private Liveness, private Watch::Events {
 public:
  FileBackend(Config const& config, Host& host)
      : host_(host),
        path_(std::filesystem::absolute(config.root).string()),
        beat_(std::max(config.ttl.value_or(kDefaultTtl) / 3, kShortestBeat)),
        mutex_(host),
        watch_(host, *this) {}

  ~FileBackend() override {
    alive_.reset();
    host_.cancel(timer_);
    close_session();
  }

  void start() override { open(); }
  void stop(std::function<void()> done) override;
  void join(Join request, Reply<Joined> reply) override;
  void look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) override;
  WatchId await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) override;
  void forget(WatchId watch) override;
  void leave(std::string const& line, EntryRef const& self, bool was_first, Reply<void> reply) override;
  void list(std::string const& line, Reply<std::vector<EntryInfo>> reply) override;
  void names(Reply<std::vector<std::string>> reply) override;
  void check(std::string const& line, EntryRef const& entry, Reply<bool> reply) override;

 private:
  struct Own {
    std::string line;
    EntryRef ref;
  };

  // The session.
  void open();
  void settle();
  Result<SessionInfo> open_session();
  void failed(error_code why);
  void lose();
  void close_session();
  void beat();
  void check_own();
  void recheck_waits();
  void confirm_removed(Own own);

  // One verb: its reply, and what it does under the mutex.
  template <class T, class Body>
  void run(Reply<T> reply, Body body);
  template <class T>
  void answer(Reply<T> reply, Result<T> result);
  void finish();
  Result<bool> open_line(std::string const& name, Line::Mode mode = Line::Mode::existing);
  Result<Joined> do_join(Join const& request);
  Result<std::optional<Ahead>> do_look(std::string const& line, EntryRef const& self, Rule rule);
  Result<void> do_leave(std::string const& line, EntryRef const& self, bool was_first);
  Result<bool> do_check(std::string const& line, EntryRef const& entry);

  // Waiting.
  void fire(std::vector<WatchId> const& ids, bool nobody_ahead);
  void watch_session(std::uint64_t session, WatchId id);

  Result<bool> alive(std::uint64_t session) override;
  void rung(Bell bell) override { fire(waits_.on_ticket(bell.ticket), bell.nobody_ahead); }
  void bells_lost() override { recheck_waits(); }
  void hung_up(std::uint64_t session) override {
    fire(waits_.where([&](Wait const& wait) { return wait.session == session; }), false);
  }

  struct Ring {
    std::uint64_t session;
    Bell bell;
  };

  Host& host_;
  std::string const path_;
  Duration const beat_;
  std::optional<Store> store_;
  std::uint64_t session_ = 0;  ///< 0: none is open
  KeptFd fifo_;
  MutexQueue mutex_;
  Watch watch_;
  Waits waits_;
  Line line_;
  std::unordered_map<std::uint64_t, Own> own_;     ///< by ticket
  std::vector<Ring> rings_;                        ///< to be rung once the mutex is free
  std::unordered_map<std::uint64_t, bool> known_;  ///< what this operation has learned of sessions
  bool vanished_ = false;                          ///< the operation found the directory gone
  bool stopped_ = false;
  TimerId timer_ = 0;  ///< the next attempt to open, or the next beat
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// ---- the session

void FileBackend::open() {
  auto opened = Store::open(path_);
  if (!opened) return failed(opened.error());
  store_.emplace(std::move(*opened));
  settle();
}

/// Waits for the mutex, by timer, then opens the session.
void FileBackend::settle() {
  if (!store_->counter().try_lock()) {
    timer_ = host_.at(host_.now() + milliseconds(1), [this] { settle(); });
    return;
  }
  auto info = open_session();
  store_->counter().unlock();
  if (!info) return failed(info.error());
  timer_ = host_.at(later(host_.now(), beat_), [this] { beat(); });
  host_.defer([this, token = std::weak_ptr<bool>(alive_), info = *info] {
    if (token.expired() || stopped_ || session_ == 0) return;
    host_.up(info);
    mutex_.open(store_->counter());
  });
}

Result<SessionInfo> FileBackend::open_session() {
  auto const sent = host_.now();
  auto const boot = boot_id();
  if (!boot) return boot.error();
  auto const directory = store_->settle(*boot);
  if (!directory) return directory.error();
  if (auto swept = store_->sweep(); !swept) return swept.error();
  auto const id = store_->counter().take();
  if (!id) return id.error();
  auto fifo = store_->sessions().create(*id, store_->file_mode());
  if (!fifo) return fifo.error();
  fifo_ = std::move(*fifo);
  session_ = *id;
  if (auto watching = watch_.open(fifo_.get()); !watching) return watching.error();
  char place[32];
  std::snprintf(place, sizeof place, "file:%016llx", static_cast<unsigned long long>(*directory));
  return SessionInfo{place, std::nullopt, sent};
}

void FileBackend::failed(error_code why) {
  close_session();
  timer_ = host_.at(host_.now() + kOpenAgain, [this] { open(); });
  host_.defer([this, token = std::weak_ptr<bool>(alive_), why] {
    if (!token.expired() && !stopped_) host_.failed(why);
  });
}

void FileBackend::lose() {
  if (session_ == 0) return;
  host_.cancel(timer_);
  close_session();
  timer_ = host_.at(host_.now() + kOpenAgain, [this] { open(); });
  host_.lost();
}

/// Gives everything back to the kernel, which ends the session for all to see. What waits for the mutex is answered.
void FileBackend::close_session() {
  mutex_.close();
  watch_.close();
  waits_.clear();
  own_.clear();
  // A child of fork() destroys a copy of this: the session is not its own to end.
  if (session_ != 0 && store_ && fifo_.mine()) store_->sessions().remove(session_);
  session_ = 0;
  fifo_.reset();
  store_.reset();
}

void FileBackend::stop(std::function<void()> done) {
  stopped_ = true;
  host_.cancel(std::exchange(timer_, 0));
  if (session_ == 0) {
    close_session();
    return host_.defer(std::move(done));
  }
  mutex_.close();
  mutex_.open(store_->counter());
  mutex_.run(
      [this, done] {
        // Each leaves by itself, so that those behind it are told in the ordinary way.
        for (auto const& [ticket, own] : std::exchange(own_, {})) (void)do_leave(own.line, own.ref, false);
        finish();
        close_session();
        host_.defer(done);
      },
      [this, done] { host_.defer(done); });
}

void FileBackend::beat() {
  timer_ = host_.at(later(host_.now(), beat_), [this] { beat(); });
  if (!store_->intact() || !store_->sessions().has(session_, fifo_.get())) return lose();
  check_own();
  watch_.probe();
  recheck_waits();
}

/// Looks for own entries that somebody removed. Without the mutex, which is not worth it for what is nearly always
/// there; what seems gone is confirmed under it.
void FileBackend::check_own() {
  std::vector<Own> suspects;
  for (auto const& [ticket, own] : own_) {
    auto const there = do_check(own.line, own.ref);
    if (there && !*there) suspects.push_back(own);
  }
  for (auto& own : suspects) confirm_removed(std::move(own));
}

void FileBackend::confirm_removed(Own own) {
  run<bool>(
      [this, own](Result<bool> there) {
        if (there && !*there && own_.erase(own.ref.number) != 0) host_.removed(own.line, own.ref);
      },
      [this, own] { return do_check(own.line, own.ref); });
}

// ---- verbs

template <class T>
void FileBackend::answer(Reply<T> reply, Result<T> result) {
  host_.defer([reply = std::move(reply), result = std::move(result)]() mutable { reply(std::move(result)); });
}

template <class T, class Body>
void FileBackend::run(Reply<T> reply, Body body) {
  if (stopped_) return answer<T>(std::move(reply), {in_place_error, lost()});
  mutex_.run(
      [this, reply, body] {
        Result<T> result = body();
        finish();
        answer<T>(reply, std::move(result));
      },
      [this, reply] {
        answer<T>(reply, {in_place_error, lost()});
      });
}

/// The end of every operation: first the mutex, then the bells, so that who is woken finds it free. Dying in between
/// forgets nobody: those who wait for us then see our session end.
void FileBackend::finish() {
  mutex_.unlock();
  line_.close();
  known_.clear();
  for (auto const& ring : rings_) store_->sessions().ring(ring.session, ring.bell.encode());
  rings_.clear();
  if (!std::exchange(vanished_, false)) return;
  host_.defer([this, token = std::weak_ptr<bool>(alive_)] {
    if (!token.expired() && !stopped_) lose();
  });
}

Result<bool> FileBackend::open_line(std::string const& name, Line::Mode mode) {
  return line_.open(store_->lines(), store_->path(), name, mode, store_->file_mode());
}

/// A session with an open and silent watch lives: if it has just died, that watch is about to say so to whoever waits.
Result<bool> FileBackend::alive(std::uint64_t session) {
  if (session == session_ || watch_.watches(session)) return true;
  if (auto const known = known_.find(session); known != known_.end()) return known->second;
  auto const answer = store_->sessions().alive(session);
  if (answer) known_.emplace(session, *answer);
  return answer;
}

void FileBackend::join(Join request, Reply<Joined> reply) {
  run<Joined>(std::move(reply), [this, request = std::move(request)] { return do_join(request); });
}

Result<Joined> FileBackend::do_join(Join const& request) {
  auto const opened = open_line(request.line, Line::Mode::create);
  if (!opened) return opened.error();
  if (!*opened) {
    vanished_ = true;
    return lost();
  }
  auto ahead = line_.ahead(line_.end(), request.rule, *this);
  if (!ahead) return ahead.error();
  if (request.only_if_free && !ahead->grants(request.rule)) return make_error_code(errc::busy);
  auto const ticket = store_->counter().take();
  if (!ticket) {
    if (line_.end() == 0) (void)line_.unlink();
    return ticket.error();
  }
  Record record{};
  record.state = Record::kLive;
  record.kind = request.kind;
  record.blockers = request.rule.blockers;
  record.waiting = ahead->grants(request.rule) ? 0 : 1;
  record.permits = request.rule.permits;
  record.label_size = static_cast<std::uint32_t>(std::min(request.label.size(), kLabelLimit));
  std::memcpy(record.label, request.label.data(), record.label_size);
  record.ticket = *ticket;
  record.session = session_;
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  record.since = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  auto self = line_.append(record);
  if (!self) return self.error();
  own_.emplace(*ticket, Own{request.line, *self});
  return Joined{std::move(*self), std::move(*ahead)};
}

void FileBackend::look(std::string const& line, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) {
  run<std::optional<Ahead>>(std::move(reply), [this, line, self, rule] { return do_look(line, self, rule); });
}

Result<std::optional<Ahead>> FileBackend::do_look(std::string const& line, EntryRef const& self, Rule rule) {
  auto const there = do_check(line, self);
  if (!there) return there.error();
  if (!*there) {
    own_.erase(self.number);
    return std::optional<Ahead>();
  }
  auto ahead = line_.ahead(from_key(self.key)->offset, rule, *this);
  if (!ahead) return ahead.error();
  if (ahead->grants(rule)) {
    if (auto noted = line_.note_granted(self); !noted) return noted.error();
  }
  return std::optional<Ahead>(std::move(*ahead));
}

void FileBackend::leave(std::string const& line, EntryRef const& self, bool was_first, Reply<void> reply) {
  run<void>(std::move(reply), [this, line, self, was_first] { return do_leave(line, self, was_first); });
}

Result<void> FileBackend::do_leave(std::string const& line, EntryRef const& self, bool was_first) {
  auto const opened = open_line(line);
  if (!opened) return opened.error();
  if (*opened) {
    auto const departure = line_.remove(self, was_first);
    if (!departure) return departure.error();
    Bell const bell{self.number, departure->nobody_ahead};
    // The client's own waiters are woken above the seam.
    for (auto const session : departure->wake)
      if (session != session_) rings_.push_back({session, bell});
  }
  own_.erase(self.number);
  return {};
}

void FileBackend::list(std::string const& line, Reply<std::vector<EntryInfo>> reply) {
  run<std::vector<EntryInfo>>(std::move(reply), [this, line]() -> Result<std::vector<EntryInfo>> {
    auto const opened = open_line(line);
    if (!opened) return opened.error();
    if (!*opened) return std::vector<EntryInfo>();
    return line_.list(*this);
  });
}

void FileBackend::names(Reply<std::vector<std::string>> reply) {
  run<std::vector<std::string>>(std::move(reply), [this]() -> Result<std::vector<std::string>> {
    // There may be thousands: others need not wait for us to read them all. Any one line is seen as it was before or
    // after what happens to it meanwhile.
    mutex_.unlock();
    auto names = names_in(store_->lines(), store_->path() + "/lines");
    if (!names) return names;
    std::erase_if(*names, [this](std::string const& name) {
      auto const opened = open_line(name);
      if (!opened) return false;  // broken, which its users should see
      if (!*opened) return true;
      auto const occupied = line_.occupied(*this);
      return occupied && !*occupied;
    });
    return names;
  });
}

void FileBackend::check(std::string const& line, EntryRef const& entry, Reply<bool> reply) {
  run<bool>(std::move(reply), [this, line, entry]() -> Result<bool> {
    auto const there = do_check(line, entry);
    if (!there || !*there) return there;
    return alive(from_key(entry.key)->session);
  });
}

Result<bool> FileBackend::do_check(std::string const& line, EntryRef const& entry) {
  auto const opened = open_line(line);
  if (!opened || !*opened) return opened;
  return line_.has(entry);
}

// ---- waiting

// No departure is missed between the join or look that showed the entry and this call: whoever leaves after that,
// leaves under the mutex, finds our record, and rings. Bells and hang-ups are read inside the monitor only, and a reply
// is given, and this called from it, before the monitor is left.
WatchId FileBackend::await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) {
  auto const place = from_key(entry.key);
  auto const session = place ? place->session : 0;
  auto const id = waits_.add({line, entry, session, std::move(gone), false});
  if (session_ == 0 || !place)
    fire({id}, false);
  else if (session != session_)
    watch_session(session, id);
  return id;
}

void FileBackend::watch_session(std::uint64_t session, WatchId id) {
  if (!watch_.watches(session)) {
    auto fifo = store_->sessions().open_for_hangup(session);
    // Opened too late to see it hang up: its lock tells.
    bool const dead = fifo ? !locked_by_other(fifo.get()) : errno == ENOENT;
    if (dead) return fire({id}, false);
    // Without a descriptor its bell still reaches us, and its death is noticed at the next beat.
    if (!fifo || !watch_.add(session, std::move(fifo))) return;
  }
  watch_.hold(session);
}

void FileBackend::forget(WatchId watch) {
  auto const wait = waits_.take(watch);
  if (wait.gone) watch_.drop(wait.session);
}

void FileBackend::fire(std::vector<WatchId> const& ids, bool nobody_ahead) {
  for (auto const id : ids) {
    auto* const wait = waits_.find(id);
    if (wait == nullptr || std::exchange(wait->fired, true)) continue;
    host_.defer([this, token = std::weak_ptr<bool>(alive_), id, nobody_ahead] {
      if (token.expired()) return;
      auto const fired = waits_.take(id);  // unless it was forgotten in the meantime
      if (!fired.gone) return;
      watch_.drop(fired.session);
      fired.gone(nobody_ahead);
    });
  }
}

/// Asks after everything that is waited for: after lost bells, and at each beat for what could not be watched.
void FileBackend::recheck_waits() {
  fire(waits_.where([this](Wait const& wait) {
    auto const there = do_check(wait.line, wait.entry);
    if (!there) return false;
    if (!*there) return true;
    auto const lives = alive(wait.session);
    return lives && !*lives;
  }),
       false);
  line_.close();
  known_.clear();
}

}  // namespace
}  // namespace file

std::unique_ptr<Backend> make_file_backend(Config const& config, Host& host) {
  return std::make_unique<file::FileBackend>(config, host);
}

}  // namespace holdfast::detail

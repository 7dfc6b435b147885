#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/backend.hpp"
#include "local/file_mutex.hpp"
#include "local/file_spare.hpp"
#include "local/file_store.hpp"
#include "local/file_waits.hpp"
#include "local/file_watch.hpp"

namespace holdfast::detail {

namespace file {

/// The backend for `file:`: a directory on this host, with the kernel as the service. A session lives as long as its
/// process does not die; nothing renews it, and a process that is stopped keeps what it holds.
///
/// In four files: the verbs, the session (file_backend_session.cpp), waiting (file_backend_waiting.cpp), and the beat
/// (file_backend_beat.cpp).
///
/// Thread safety: distinct objects safe; shared objects unsafe: only inside the host's monitor.
class FileBackend final : public Backend, private Liveness, private Watch::Events {
 public:
  FileBackend(Config const& config, Host& host);
  ~FileBackend() override;

  void start() override { open(); }
  void stop(std::function<void()> done) override;
  void abandon() override { close_session(); }
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

  // The beat.
  struct Concern {
    std::string line;
    EntryRef entry;
    WatchId wait;  ///< 0: it is our own
    std::uint64_t offset = 0;
  };
  void beat();
  void add_waits();
  void sort_round();
  void go_round();
  bool in_order(bool line_there, Concern const& concern);
  void confirm(Concern concern);

  // One verb: its reply, and what it does under the mutex.
  template <class T, class Body>
  void run(Reply<T> reply, Body body);
  template <class T>
  void answer(Reply<T> reply, Result<T> result);
  void finish();
  template <class What>
  void soon(What what);
  Result<bool> open_line(std::string const& name, Line::Mode mode = Line::Mode::existing);
  Result<Joined> do_join(Join const& request);
  Result<std::optional<Ahead>> do_look(std::string const& line, EntryRef const& self, Rule rule);
  Result<void> do_leave(std::string const& line, EntryRef const& self, bool was_first);
  Result<Fate> do_commit(Guarded const& request);
  Result<bool> do_check(std::string const& line, EntryRef const& entry);

  // Waiting.
  struct Ring {
    std::uint64_t session;
    Bell bell;
    std::string line;
  };
  void ring(Ring const& ring);
  void tidy(std::string const& line);
  void fire(std::vector<WatchId> const& ids, bool nobody_ahead);
  void watch_session(std::uint64_t session, WatchId id);

  Result<bool> alive(std::uint64_t session) override;
  void rung(Bell bell) override { fire(waits_.on_ticket(bell.ticket), bell.nobody_ahead); }
  void bells_lost() override;
  void hung_up(std::uint64_t session) override {
    fire(waits_.where([&](Wait const& wait) { return wait.session == session; }), false);
  }

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
  std::vector<Concern> round_;                     ///< what this beat has still to look at
  std::unordered_map<std::uint64_t, bool> known_;  ///< what this operation has learned of sessions
  bool vanished_ = false;                          ///< the operation found the directory gone
  bool stopped_ = false;
  TimePoint opening_since_{};
  TimerId timer_ = 0;  ///< the next attempt to open, or the next beat
  TimerId round_timer_ = 0;
  Spare spare_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

template <class T>
void FileBackend::answer(Reply<T> reply, Result<T> result) {
  host_.defer([reply = std::move(reply), result = std::move(result)]() mutable { reply(std::move(result)); });
}

/// Runs something before the monitor is left, unless we were stopped meanwhile.
template <class What>
void FileBackend::soon(What what) {
  host_.defer([this, token = std::weak_ptr<bool>(alive_), what = std::move(what)] {
    if (!token.expired() && !stopped_) what();
  });
}

template <class T, class Body>
void FileBackend::run(Reply<T> reply, Body body) {
  if (stopped_) return answer<T>(std::move(reply), {boost::system::in_place_error, make_error_code(errc::lost)});
  mutex_.run(
      [this, reply, body] {
        Result<T> result = body();
        if (!result && out_of_descriptors(result.error().value()) && spare_.give()) {
          result = body();
          spare_.take(store_->lines());
        }
        finish();
        answer<T>(reply, std::move(result));
      },
      [this, reply] {
        answer<T>(reply, {boost::system::in_place_error, make_error_code(errc::lost)});
      });
}

}  // namespace file

std::unique_ptr<Backend> make_file_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

#include "local/file_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/error.hpp"
#include "local/file_values.hpp"

namespace holdfast::detail {

namespace file {

/// The end of every operation: first the mutex, then the bells, so that who is woken finds it free. Dying in between
/// forgets nobody: those who wait for us then see our session end.
void FileBackend::finish() {
  mutex_.unlock();
  line_.close();
  known_.clear();
  for (auto const& each : rings_) ring(each);
  rings_.clear();
  if (!std::exchange(vanished_, false)) return;
  soon([this] { lose(); });
}

/// Should it fail in spite of the spare descriptors, the one to be told finds out at its next beat.
void FileBackend::ring(Ring const& ring) {
  auto const& sessions = store_->sessions();
  auto rung = sessions.ring(ring.session, ring.bell.encode());
  if (rung == Sessions::Rung::failed && out_of_descriptors(errno) && spare_.give()) {
    rung = sessions.ring(ring.session, ring.bell.encode());
    spare_.take(store_->lines());
  }
  if (rung == Sessions::Rung::nobody_there) soon([this, line = ring.line] { tidy(line); });
}

/// Removes the file of a line in which only the dead are left.
void FileBackend::tidy(std::string const& line) {
  run<void>([](Result<void> const&) {},
            [this, line]() -> Result<void> {
              auto const opened = open_line(line);
              if (!opened) return opened.error();
              if (!*opened) return {};
              auto const occupied = line_.occupied(*this);
              if (!occupied) return occupied.error();
              return *occupied ? Result<void>() : line_.unlink();
            });
}

Result<bool> FileBackend::open_line(std::string const& name, Line::Mode mode) {
  return line_.open(store_->lines(), store_->path(), name, mode, store_->rights());
}

Result<bool> FileBackend::alive(std::uint64_t session) {
  if (session == session_) return true;
  if (auto const known = known_.find(session); known != known_.end()) return known->second;
  auto const watched = watch_.fifo(session);
  auto const locked = watched >= 0 ? locked_by_other(watched) : std::nullopt;
  auto const answer = locked ? Result<bool>(*locked) : store_->sessions().alive(session);
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
    return make_error_code(errc::lost);
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
    auto const departure = line_.remove(self, was_first, *this);
    if (!departure) return departure.error();
    Bell const bell{self.number, departure->nobody_ahead};
    // The client's own waiters are woken above the seam.
    for (auto const session : departure->wake)
      if (session != session_) rings_.push_back({session, bell, line});
  }
  own_.erase(self.number);
  return {};
}

void FileBackend::commit(Guarded request, Reply<Fate> reply) {
  run<Fate>(std::move(reply), [this, request = std::move(request)] { return do_commit(request); });
}

Result<Fate> FileBackend::do_commit(Guarded const& request) {
  if (!request.ticket->wanted) return Fate::not_done;
  auto const there = do_check(request.line, request.self);
  if (!there) return there.error();
  if (!*there) return make_error_code(errc::lost);
  auto values = load_values(store_->dir(), store_->path());
  if (!values) return values.error();
  if (auto const key = unmet_condition(request.what, *values)) return fail(errc::conflict, "the key " + *key);
  apply_writes(request.what, *values);
  if (auto const stored = store_values(store_->dir(), store_->path(), *values, store_->rights()); !stored)
    return stored.error();
  return Fate::done;
}

void FileBackend::read(std::string const& key, Reply<std::optional<std::string>> reply) {
  run<std::optional<std::string>>(std::move(reply), [this, key]() -> Result<std::optional<std::string>> {
    auto const values = load_values(store_->dir(), store_->path());
    if (!values) return values.error();
    auto const found = values->find(key);
    return found == values->end() ? std::nullopt : std::optional(found->second);
  });
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
      if (!opened) return false;
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

}  // namespace file

std::unique_ptr<Backend> make_file_backend(Config const& config, Host& host) {
  return std::make_unique<file::FileBackend>(config, host);
}

}  // namespace holdfast::detail

#include "local/memory_service.hpp"

#include <algorithm>

#include "common/error.hpp"
#include "local/values.hpp"

namespace holdfast::detail {
namespace {

error_code lost_session() { return make_error_code(errc::lost); }

}  // namespace

std::shared_ptr<MemoryService> MemoryService::named(std::string const& name) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, std::shared_ptr<MemoryService>>;  // outlives static clients
  std::lock_guard const guard(mutex);
  auto& service = (*all)[name];
  if (!service) service = std::make_shared<MemoryService>([] { return BootClock::now(); });
  return service;
}

// ---- sessions

MemoryService::Opened MemoryService::open(std::chrono::milliseconds ttl, Notice notice) {
  std::lock_guard const guard(mutex_);
  expire_due();
  SessionId const id = ++revision_;
  sessions_.emplace(id, Session{ttl, clock_() + ttl, ++revision_, std::move(notice), {}, {}});
  return {id, revision_};
}

Result<MemoryService::Renewed> MemoryService::renew(SessionId id) {
  std::lock_guard const guard(mutex_);
  expire_due();
  Session* const session = find(id);
  if (!session) return lost_session();
  session->expires = clock_() + session->ttl;
  return session->renewed;
}

void MemoryService::close(SessionId id) {
  std::lock_guard const guard(mutex_);
  end(id);
}

MemoryService::Session* MemoryService::find(SessionId id) {
  auto const place = sessions_.find(id);
  return place == sessions_.end() ? nullptr : &place->second;
}

void MemoryService::expire_due() {
  TimePoint const now = clock_();
  std::vector<SessionId> due;
  for (auto const& [id, session] : sessions_)
    if (session.expires <= now) due.push_back(id);
  for (SessionId const id : due) end(id);
}

void MemoryService::end(SessionId id) {
  if (sessions_.erase(id) == 0) return;
  std::vector<std::pair<std::string, EntryRef>> mine;
  for (auto const& [name, line] : lines_)
    for (auto const& [number, entry] : line)
      if (entry.session == id) mine.emplace_back(name, entry.info.ref);
  for (auto const& [name, ref] : mine) {
    Line& line = lines_.at(name);
    erase(name, find(line, ref), Change::What::expired, 0);
  }
}

// ---- lines

MemoryService::Line::iterator MemoryService::find(Line& line, EntryRef const& entry) {
  auto const at = line.find(entry.number);
  return at != line.end() && at->second.info.ref == entry ? at : line.end();
}

void MemoryService::erase(std::string const& name, Line::iterator entry, Change::What how, SessionId by) {
  Entry const gone = std::move(entry->second);
  auto const line = lines_.find(name);
  line->second.erase(entry);
  if (line->second.empty()) lines_.erase(line);
  if (observer_) observer_({how, name, gone.info, gone.session, by});
  for (SessionId const watcher : gone.watchers)
    if (Session const* const session = find(watcher)) session->notice(name, gone.info.ref);
}

Ahead MemoryService::ahead_of(Line const& line, Line::const_iterator self, Rule rule) {
  Ahead ahead;
  while (self != line.begin()) {
    --self;
    EntryInfo const& info = self->second.info;
    if (!rule.blocked_by(info.kind)) continue;
    if (ahead.nearest.size() == rule.permits) {
      ahead.more = true;
      break;
    }
    ahead.nearest.push_back(info.ref);
  }
  return ahead;
}

Result<std::optional<Joined>> MemoryService::join(SessionId id, std::uint64_t guard, std::uint64_t claim,
                                                  Join const& request) {
  std::lock_guard const lock(mutex_);
  expire_due();
  Session const* const session = find(id);
  if (!session) return lost_session();
  if (session->guard != guard && !ignores_guards_) return std::optional<Joined>();
  auto const place = lines_.find(request.line);
  Ahead ahead = place == lines_.end() ? Ahead{} : ahead_of(place->second, place->second.end(), request.rule);
  if (request.only_if_free && !ahead.grants(request.rule)) return make_error_code(errc::busy);
  EntryRef const ref{std::to_string(id) + "-" + std::to_string(claim), ++revision_};
  auto const place_in_line =
      lines_[request.line]
          .emplace(ref.number,
                   Entry{{ref, request.kind, request.label, std::chrono::system_clock::now()}, id, claim, {}})
          .first;
  if (observer_) observer_({Change::What::joined, request.line, place_in_line->second.info, id, id});
  return std::optional(Joined{ref, std::move(ahead)});
}

Result<MemoryService::Settled> MemoryService::settle(SessionId id, std::uint64_t claim, Join const& request) {
  std::lock_guard const lock(mutex_);
  expire_due();
  Session* const session = find(id);
  if (!session) return lost_session();
  session->guard = ++revision_;
  Settled settled{session->guard, std::nullopt};
  auto const place = lines_.find(request.line);
  if (place == lines_.end()) return settled;
  Line const& line = place->second;
  auto const at = std::find_if(line.begin(), line.end(), [&](auto const& each) {
    return each.second.session == id && each.second.claim == claim;
  });
  if (at != line.end()) settled.found = Joined{at->second.info.ref, ahead_of(line, at, request.rule)};
  return settled;
}

Result<std::optional<Ahead>> MemoryService::look(SessionId id, std::string const& name, EntryRef const& self,
                                                 Rule rule) {
  std::lock_guard const lock(mutex_);
  expire_due();
  if (!find(id)) return lost_session();
  auto const place = lines_.find(name);
  if (place == lines_.end()) return std::optional<Ahead>();
  auto const at = find(place->second, self);
  if (at == place->second.end()) return std::optional<Ahead>();
  return std::optional(ahead_of(place->second, at, rule));
}

Result<MemoryService::Seen> MemoryService::watch(SessionId id, std::string const& name, EntryRef const& entry) {
  std::lock_guard const lock(mutex_);
  expire_due();
  if (!find(id)) return lost_session();
  auto const place = lines_.find(name);
  if (place == lines_.end()) return Seen::gone;
  auto const at = find(place->second, entry);
  if (at == place->second.end()) return Seen::gone;
  auto& watchers = at->second.watchers;
  if (std::find(watchers.begin(), watchers.end(), id) == watchers.end()) watchers.push_back(id);
  return Seen::there;
}

Result<void> MemoryService::leave(SessionId id, std::string const& name, EntryRef const& self) {
  std::lock_guard const lock(mutex_);
  expire_due();
  if (!find(id)) return lost_session();
  auto const place = lines_.find(name);
  if (place == lines_.end()) return {};
  if (auto const at = find(place->second, self); at != place->second.end()) erase(name, at, Change::What::left, id);
  return {};
}

Result<MemoryService::Committed> MemoryService::commit(SessionId id, std::uint64_t guard, Receipt receipt,
                                                       Guarded const& request) {
  std::lock_guard const lock(mutex_);
  expire_due();
  Session* const session = find(id);
  if (!session) return lost_session();
  if (session->guard != guard && !ignores_guards_) return Committed{Committed::What::barred};
  auto const place = lines_.find(request.line);
  if (place == lines_.end() || find(place->second, request.self) == place->second.end())
    return Committed{Committed::What::no_entry};
  if (auto const unmet = unmet_condition(request.what, values_)) return Committed{Committed::What::conflict, *unmet};
  apply_writes(request.what, values_);
  session->receipts[receipt.slot] = receipt.number;
  if (commit_observer_) commit_observer_(request.line, request.self, request.what);
  return Committed{Committed::What::done};
}

Result<MemoryService::SettledCommit> MemoryService::settle_commit(SessionId id, Receipt receipt) {
  std::lock_guard const lock(mutex_);
  expire_due();
  Session* const session = find(id);
  if (!session) return lost_session();
  session->guard = ++revision_;
  auto const found = session->receipts.find(receipt.slot);
  return SettledCommit{session->guard, found != session->receipts.end() && found->second == receipt.number};
}

std::optional<std::string> MemoryService::read(std::string const& key) {
  std::lock_guard const lock(mutex_);
  auto const found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<EntryInfo> MemoryService::list(std::string const& name) {
  std::lock_guard const lock(mutex_);
  expire_due();
  std::vector<EntryInfo> all;
  if (auto const place = lines_.find(name); place != lines_.end())
    for (auto const& [number, entry] : place->second) all.push_back(entry.info);
  return all;
}

std::vector<std::string> MemoryService::names() {
  std::lock_guard const lock(mutex_);
  expire_due();
  std::vector<std::string> all;
  for (auto const& [name, line] : lines_) all.push_back(name);
  return all;
}

bool MemoryService::check(std::string const& name, EntryRef const& entry) {
  std::lock_guard const lock(mutex_);
  expire_due();
  auto const place = lines_.find(name);
  return place != lines_.end() && find(place->second, entry) != place->second.end();
}

// ---- operators and mishaps

void MemoryService::tick() {
  std::lock_guard const lock(mutex_);
  expire_due();
}

void MemoryService::expire_all() {
  std::lock_guard const lock(mutex_);
  while (!sessions_.empty()) end(sessions_.begin()->first);
}

void MemoryService::remove(std::string const& name, EntryRef const& entry) {
  std::lock_guard const lock(mutex_);
  auto const place = lines_.find(name);
  if (place == lines_.end()) return;
  auto const at = find(place->second, entry);
  if (at == place->second.end()) return;
  if (Session* const owner = find(at->second.session)) owner->renewed.removed.emplace_back(name, entry);
  erase(name, at, Change::What::removed, 0);
}

void MemoryService::set_outage(bool outage) {
  std::lock_guard const lock(mutex_);
  outage_ = outage;
}

bool MemoryService::outage() {
  std::lock_guard const lock(mutex_);
  return outage_;
}

std::size_t MemoryService::session_count() {
  std::lock_guard const lock(mutex_);
  expire_due();
  return sessions_.size();
}

TimePoint MemoryService::next_expiry() {
  std::lock_guard const lock(mutex_);
  TimePoint next = kNever;
  for (auto const& [id, session] : sessions_) next = std::min(next, session.expires);
  return next;
}

}  // namespace holdfast::detail

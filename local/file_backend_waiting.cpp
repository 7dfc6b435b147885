#include <cerrno>

#include "local/file_backend.hpp"

namespace holdfast::detail::file {

// No departure is missed between the join or look that showed the entry and this call: whoever leaves after that,
// leaves under the mutex, finds our record, and rings. Bells and hang-ups are read inside the monitor only, and a reply
// is given, and this called from it, before the monitor is left.
WatchId FileBackend::await_gone(std::string const& line, EntryRef const& entry, std::function<void(bool)> gone) {
  auto const place = from_key(entry.key);
  auto const session = place ? place->session : 0;
  auto const id = waits_.add({line, entry, session, std::move(gone)});
  if (session_ == 0 || !place)
    fire({id}, false);
  else if (session != session_)
    watch_session(session, id);
  return id;
}

void FileBackend::watch_session(std::uint64_t session, WatchId id) {
  if (watch_.fifo(session) < 0) {
    auto fifo = store_->sessions().open_for_hangup(session);
    // Opened too late to see it hang up: its lock tells.
    bool const dead = fifo ? locked_by_other(fifo.get()) == false : errno == ENOENT;
    if (dead) return fire({id}, false);
    // Without a descriptor its bell still reaches us, and its death is noticed at the next beat.
    if (!fifo || !watch_.add(session, std::move(fifo))) return;
  }
  watch_.hold(session);
  waits_.find(id)->watched = true;
}

void FileBackend::forget(WatchId watch) {
  auto const wait = waits_.take(watch);
  if (wait.watched) watch_.drop(wait.session);
}

void FileBackend::fire(std::vector<WatchId> const& ids, bool nobody_ahead) {
  for (auto const id : ids) {
    auto* const wait = waits_.find(id);
    if (wait == nullptr || std::exchange(wait->fired, true)) continue;
    host_.defer([this, token = std::weak_ptr<bool>(alive_), id, nobody_ahead] {
      if (token.expired()) return;
      auto const fired = waits_.take(id);  // unless it was forgotten in the meantime
      if (!fired.gone) return;
      if (fired.watched) watch_.drop(fired.session);
      fired.gone(nobody_ahead);
    });
  }
}

}  // namespace holdfast::detail::file

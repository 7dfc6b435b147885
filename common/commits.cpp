#include "common/commits.hpp"

#include <algorithm>

#include "common/core.hpp"

namespace holdfast::detail {

bool Commits::ask_again(Commit const& what, Done const& done) {
  auto const found = doubtful_.find(what.id());
  if (found == doubtful_.end()) return false;
  auto const asked = found->second;
  if (!asked->known) {
    asked->ticket->wanted = !over_;
    listen(asked, done);
    return true;
  }
  if (*asked->known != errc::unknown_outcome) doubtful_.erase(found);
  if (*asked->known == errc::unavailable && !over_) return false;  // nothing came of it: it may be tried anew
  done(*asked->known);
  return true;
}

void Commits::add(Commit what, Done done) {
  auto const asked = std::make_shared<Asked>();
  asked->what = std::move(what);
  queue_.push_back(asked);
  listen(asked, std::move(done));
  if (!under_way_) send();
}

void Commits::listen(std::shared_ptr<Asked> const& asked, Done done) {
  auto const number = ++last_caller_;
  auto const timer = core_.at(core_.now() + core_.config().request_timeout,
                              [self = shared_from_this(), asked, number] { self->time_is_up(asked, number); });
  asked->callers.emplace(number, Caller{timer, std::move(done)});
}

/// If it may have reached the service, or is still wanted by somebody else, nobody can say yet what becomes of it; if
/// not, it never will.
void Commits::time_is_up(std::shared_ptr<Asked> const& asked, std::uint64_t caller) {
  auto const done = std::move(asked->callers.extract(caller).mapped().done);
  if (asked->callers.empty()) asked->ticket->wanted = false;
  if (asked->ticket->sent || asked->ticket->wanted) {
    doubt(asked);
    return done(make_error_code(errc::unknown_outcome));
  }
  if (asked != queue_.front()) std::erase(queue_, asked);
  done(core_.unreachable());
}

void Commits::send() {
  under_way_ = true;
  auto const& asked = queue_.front();
  core_.backend().commit({line_, self_, asked->what, asked->ticket},
                         [self = shared_from_this()](Result<Fate> fate) { self->answered(fate); });
}

void Commits::answered(Result<Fate> const& fate) {
  if (closed_) return;
  auto const asked = queue_.front();
  bool const not_done = fate && *fate == Fate::not_done;
  if (not_done && asked->ticket->wanted) {
    asked->ticket->sent = false;
    return send();
  }
  under_way_ = false;
  queue_.pop_front();
  if (not_done)
    tell(asked, over_ ? make_error_code(errc::lost) : core_.unreachable());
  else
    tell(asked, fate ? error_code() : fate.error());
  if (!queue_.empty()) return send();
  if (auto const idle = std::exchange(idle_, nullptr)) idle();
}

void Commits::tell(std::shared_ptr<Asked> const& asked, error_code outcome) {
  asked->known = outcome;
  if (outcome == errc::unknown_outcome)
    doubt(asked);
  else if (!asked->callers.empty())
    doubtful_.erase(asked->what.id());  // he who asked again is told herewith
  for (auto const& [number, caller] : std::exchange(asked->callers, {})) {
    core_.cancel(caller.timer);
    caller.done(outcome);
  }
}

void Commits::doubt(std::shared_ptr<Asked> const& asked) {
  doubtful_.emplace(asked->what.id(), asked);
  if (doubtful_.size() > kMostDoubtful) doubtful_.erase(doubtful_.begin());
}

void Commits::end(std::function<void()> idle) {
  over_ = true;
  drop_unsent(make_error_code(errc::lost));
  if (!under_way_) return idle();
  queue_.front()->ticket->wanted = false;
  idle_ = std::move(idle);
}

void Commits::close() {
  over_ = closed_ = true;
  drop_unsent(make_error_code(errc::closed));
  if (under_way_)
    tell(queue_.front(), make_error_code(queue_.front()->ticket->sent ? errc::unknown_outcome : errc::closed));
  under_way_ = false;
  queue_.clear();
  idle_ = nullptr;
}

void Commits::drop_unsent(error_code why) {
  while (queue_.size() > (under_way_ ? 1U : 0U)) {
    auto const asked = queue_.back();
    queue_.pop_back();
    tell(asked, why);
  }
}

}  // namespace holdfast::detail

#include "tests/sim/worker.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>

namespace holdfast::sim {

namespace asio = boost::asio;

namespace {

constexpr Duration kSlack = 2ms;  ///< from the instant something is due to the user's knowing of it

std::string seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

}  // namespace

bool Worker::undisturbed_since(TimePoint when) const {
  return machine_.last_mishap() <= when && !machine_.paused() && !machine_.callbacks_blocked();
}

void Worker::again() {
  machine_.after(world().between(0ms, s_.ttl), [this] {
    if (!s_.winding_up && !closed_) begin();
  });
}

void Worker::begin() {
  ++round_;
  pending_ = true;
  cancelled_ = false;
  began_ = world().now();
  deadline_.reset();
  stop_ = {};

  AcquireOptions options;
  options.label = label();
  tries_ = world().chance(0.15);
  if (tries_) {
    options.timeout = 0ns;
    deadline_ = machine_.clock() + s_.request_timeout;
  } else if (world().chance(0.4)) {
    options.timeout = world().between(1ms, 3 * s_.ttl);
    deadline_ = machine_.clock() + *options.timeout;
  }
  bool const by_signal = world().chance(0.5);
  if (!by_signal) options.stop = stop_.get_token();
  world().say(name_, std::string(tries_ ? "tries " : "asks for ") + line_ +
                         (options.timeout && !tries_ ? " for " + seconds(*options.timeout) : ""));
  if (!options.timeout) s_.checker.waits(label(), machine_);
  auto completion = [this, round = round_](error_code ec, Hold hold) { done(round, ec, std::move(hold)); };
  if (by_signal)
    lock_.async_acquire(options, asio::bind_cancellation_slot(signal_.slot(), completion));
  else
    lock_.async_acquire(options, completion);
  if (world().chance(0.2)) cancel_later();
}

void Worker::cancel_later() {
  // Soon, to cross the join and the grant; or at some time.
  Duration const when = world().chance(0.5) ? world().between(0ms, 5ms) : world().between(0ms, 2 * s_.ttl);
  machine_.after(when, [this, round = round_] {
    if (!pending_ || round != round_) return;
    world().say(name_, "gives up");
    cancelled_ = true;
    s_.checker.waits_no_more(label());
    stop_.request_stop();
    signal_.emit(asio::cancellation_type::terminal);
  });
}

void Worker::done(unsigned round, error_code ec, Hold hold) {
  if (s_.over) return;
  if (!pending_ || round != round_) return world().broke("one outcome", name_ + " was told twice");
  pending_ = false;
  s_.checker.waits_no_more(label());
  if (deadline_ && undisturbed_since(began_) && machine_.clock() > *deadline_ + kSlack)
    world().broke("deadlines hold",
                  name_ + " was told " + seconds(machine_.clock() - *deadline_) + " after its deadline");
  if (ec) {
    failed(ec);
    return again();
  }
  ++s_.counts["grants"];
  if (cancelled_) ++s_.counts["grants that crossed a cancellation"];
  if (!hold.valid()) ++s_.counts["grants delivered too late"];
  world().say(name_, "holds " + line_ + ", fence " + hold.fence().to_string());
  auto token = hold.lost();
  held_.emplace(Held{&machine_, name_, line_, kind_, rule_, std::move(hold), std::move(token)});
  s_.checker.granted(*held_, undisturbed_since(began_));
  Duration const how_long = world().chance(0.7) ? world().between(0ms, 300ms) : world().between(0ms, 2 * s_.ttl);
  if (world().chance(0.3)) commit();  // at once, so that it crosses the release of the one before
  for (int more = 0; more < 2; ++more)
    if (world().chance(0.3)) machine_.after(world().between(0ms, how_long), [this] { commit(); });
  machine_.after(how_long, [this] { give_back(); });
}

void Worker::failed(error_code ec) {
  world().say(name_, "does not get " + line_ + ": " + ec.message());
  auto const wrong = [&](std::string const& why) {
    world().broke("documented errors", name_ + " got \"" + ec.message() + "\" " + why);
  };
  bool const reachable = link_.up() && link_.last_mishap() <= began_ && undisturbed_since(began_);
  if (ec == errc::cancelled) {
    ++s_.counts["cancelled"];
    if (!cancelled_) wrong("without having given up");
  } else if (ec == errc::closed) {
    ++s_.counts["closed"];
    if (!closed_) wrong("from an open client");
  } else if (ec == errc::busy) {
    ++s_.counts["busy"];
    if (!tries_) wrong("from a call that waits");
  } else if (ec == errc::timed_out) {
    ++s_.counts["timed out"];
    if (!deadline_ || tries_) wrong("from a call without a deadline");
    if (deadline_ && machine_.clock() < *deadline_) wrong("before its deadline");
  } else if (ec == errc::unavailable) {
    ++s_.counts["unavailable"];
    if (!deadline_) wrong("from a call without a deadline");
    // A wait of a moment may end before the first answer can have come.
    if (s_.calm && reachable && world().now() - began_ > 100ms) wrong("from a service that answers");
  } else {
    wrong("which no acquire may give");
  }
}

void Worker::commit() {
  if (!held_) return;
  std::string const value = label() + "/" + std::to_string(++commits_);
  send_commit(Commit().put("/" + line_, value), value);
}

void Worker::send_commit(Commit const& what, std::string const& value) {
  world().say(name_, "commits " + value);
  ++committing_;
  held_->hold.async_commit(what, [=, this, began = world().now(), deadline = machine_.clock() + s_.request_timeout](
                                     error_code ec) { committed(ec, what, value, began, deadline); });
}

void Worker::committed(error_code ec, Commit const& what, std::string const& value, TimePoint began,
                       TimePoint deadline) {
  if (s_.over) return;
  --committing_;
  world().say(name_, "has committed " + value + ": " + (ec ? ec.message() : "done"));
  if (undisturbed_since(began) && machine_.clock() > deadline + kSlack)
    world().broke("deadlines hold", name_ + " was told of a commit " + seconds(machine_.clock() - deadline) + " late");
  if (ec == errc::unknown_outcome) {
    ++s_.counts["commits of unknown outcome"];
    bool const same_hold = held_ && value.starts_with(label() + "/");
    if (same_hold && world().chance(0.5)) send_commit(what, value);
    return;
  }
  if (ec == errc::closed) return;  // which says nothing of one that was asked about again
  ++s_.counts[ec ? "commits not done" : "commits done"];
  if (ec && ec != errc::lost && ec != errc::unavailable)
    world().broke("documented errors", name_ + " got \"" + ec.message() + "\" from a commit");
  s_.checker.told_of_commit(value, !ec);
}

void Worker::give_back() {
  if (!held_) return;
  bool const lost = held_->told.stop_requested();
  if (lost) {
    ++s_.counts["losses told"];
    if (s_.calm) world().broke("loss is told", name_ + " was told of a loss where nothing went wrong");
  }
  std::uint64_t const number = held_->hold.fence().token();
  TimePoint const deadline = machine_.clock() + held_->hold.valid_for();
  world().say(name_, "gives " + line_ + " back");
  if (world().chance(0.5)) {
    held_.reset();
    return again();
  }
  ++releasing_;
  auto const told = held_->told;
  held_->hold.async_release([this, number, deadline, lost, told, began = world().now()](error_code ec) {
    if (!s_.over && !ec && !lost && told.stop_requested())
      world().broke("loss is told", name_ + " had a token fire on a clean release");
    released(ec, number, deadline, began);
  });
  held_.reset();
}

void Worker::released(error_code ec, std::uint64_t number, TimePoint deadline, TimePoint began) {
  if (s_.over) return;
  --releasing_;
  world().say(name_, "gave " + line_ + " back: " + (ec ? ec.message() : "confirmed"));
  ++s_.counts[ec ? "releases unconfirmed" : "releases confirmed"];
  auto const line = s_.checker.lines().find(line_);
  if (!ec && line != s_.checker.lines().end() && line->second.contains(number))
    world().broke("release", name_ + " was told that entry " + std::to_string(number) + " is gone, but it stands");
  if (ec && ec != errc::unknown_outcome && ec != errc::lost && ec != errc::closed)
    world().broke("documented errors", name_ + " got \"" + ec.message() + "\" from a release");
  if (undisturbed_since(began) && machine_.clock() > deadline + kSlack && ec != errc::lost)
    world().broke("deadlines hold", name_ + " had a release return " + seconds(machine_.clock() - deadline) + " late");
  again();
}

void Worker::drop() { held_.reset(); }

}  // namespace holdfast::sim

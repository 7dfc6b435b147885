#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <optional>
#include <string>

#include "tests/sim/checker.hpp"

namespace holdfast::sim {

/// What the workers of a schedule have in common.
struct Shared {
  World& world;
  Checker& checker;
  detail::MemoryService& service;
  Duration ttl;
  Duration request_timeout;
  bool calm = false;        ///< nothing goes wrong in this schedule: no hold may be lost, nothing be unreachable
  bool winding_up = false;  ///< nobody begins anything new
  bool over = false;        ///< what still arrives is of no interest
  std::map<std::string, std::size_t> counts;
};

/// One user of one lock: takes it in one of the ways there are, holds it a while, gives it back in one of the ways
/// there are, and again.
class Worker {
 public:
  Worker(Shared& shared, Machine& machine, Link& link, std::string name, Lock lock, std::string line, Kind kind,
         Rule rule)
      : s_(shared),
        machine_(machine),
        link_(link),
        name_(std::move(name)),
        lock_(std::move(lock)),
        line_(std::move(line)),
        kind_(kind),
        rule_(rule) {}

  void start() { again(); }
  bool busy() const { return pending_ || held_ || releasing_ > 0 || committing_ > 0; }
  bool pending() const { return pending_ && !cancelled_; }
  bool dead() const { return machine_.dead(); }
  std::string const& name() const { return name_; }
  std::string label() const { return name_ + "#" + std::to_string(round_); }  ///< of the claim at hand
  std::string const& line() const { return line_; }
  Rule const& rule() const { return rule_; }
  Held* held() { return held_ ? &*held_ : nullptr; }

  /// The client was closed under it.
  void client_closed() { closed_ = true; }
  void drop();  ///< lets go of everything; the schedule is over

 private:
  World& world() { return s_.world; }
  void again();
  void begin();
  void cancel_later();
  void done(unsigned round, error_code ec, Hold hold);
  void failed(error_code ec);
  void commit();
  void send_commit(Commit const& what, std::string const& value);
  void committed(error_code ec, Commit const& what, std::string const& value, TimePoint began, TimePoint deadline);
  void give_back();
  void released(error_code ec, std::uint64_t number, TimePoint deadline, TimePoint began);
  bool undisturbed_since(TimePoint when) const;

  Shared& s_;
  Machine& machine_;
  Link& link_;
  std::string const name_;
  Lock lock_;
  std::string const line_;
  Kind const kind_;
  Rule const rule_;

  unsigned round_ = 0;
  bool pending_ = false;
  bool closed_ = false;
  bool cancelled_ = false;
  bool tries_ = false;
  int releasing_ = 0;
  int committing_ = 0;
  unsigned commits_ = 0;
  TimePoint began_{};                  ///< true time
  std::optional<TimePoint> deadline_;  ///< by the machine's clock
  std::stop_source stop_;
  boost::asio::cancellation_signal signal_;
  std::optional<Held> held_;
};

}  // namespace holdfast::sim

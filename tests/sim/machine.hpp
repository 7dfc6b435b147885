#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime.hpp"
#include "local/memory_backend.hpp"
#include "tests/sim/world.hpp"

namespace holdfast::sim {

/// A process on a machine of its own: a clock that runs a little fast or slow, and the ways in which a process stops.
class Machine {
 public:
  Machine(World& world, std::string name, double rate, Duration offset)
      : world_(world), name_(std::move(name)), rate_(rate), offset_(offset) {}

  World& world() { return world_; }
  std::string const& name() const { return name_; }

  TimePoint clock() const;                ///< what its CLOCK_BOOTTIME shows
  Duration until(TimePoint local) const;  ///< in true time

  /// Runs something of this process: now, when it wakes, or never.
  void run(std::function<void()> const& what);
  void after(Duration delay, std::function<void()> what);

  void pause();
  void resume();  ///< what was due meanwhile happens in any order
  void kill() { dead_ = true; }
  void end();  ///< the schedule is over: whatever is still to be told is told now
  /// User code sits on the notification thread for so long.
  void block_callbacks(Duration how_long);

  bool dead() const { return dead_; }
  bool paused() const { return paused_; }
  void deafen() { deaf_ = true; }
  bool callbacks_blocked() const { return blocked_ > 0; }
  TimePoint last_mishap() const { return last_mishap_; }  ///< the last time it was not running as it should
  boost::asio::io_context& notifications() { return notifications_; }

 private:
  void deliver();

  World& world_;
  std::string const name_;
  double const rate_;
  Duration const offset_;
  bool paused_ = false;
  bool dead_ = false;
  bool deaf_ = false;
  int blocked_ = 0;
  TimePoint last_mishap_{};
  std::vector<std::function<void()>> held_up_;
  boost::asio::io_context notifications_{1};
};

/// The library's view of such a machine. There are no threads: everything happens in the steps of the world.
std::shared_ptr<detail::Runtime> make_runtime(Machine& machine);

/// The network between one client and the service.
class Link {
 public:
  Link(Machine& machine, detail::MemoryService& service, Duration longest_delay)
      : machine_(machine), service_(service), longest_delay_(longest_delay) {}

  /// The connection breaks; the client hears of it after `until_told` and is connected again after `until_up` more.
  /// What was under way is lost, or arrives late; the replies never do.
  void cut(Duration until_told, Duration until_up);
  /// Mishaps end; an interruption that goes on is ended within moments.
  void heal() { healed_ = true; }
  void lose_notices() { loses_notices_ = true; }

  bool up() const { return up_; }
  TimePoint last_mishap() const { return last_mishap_; }
  std::size_t late() const { return late_; }

  std::unique_ptr<detail::MemoryWire> make_wire(detail::Host& host);

 private:
  friend class SimWire;
  Duration delay();
  void tell_down();

  Machine& machine_;
  detail::MemoryService& service_;
  Duration const longest_delay_;
  std::uint64_t epoch_ = 1;  ///< of the connection
  bool up_ = true;           ///< packets pass
  bool told_down_ = false;
  bool healed_ = false;
  bool loses_notices_ = false;
  TimePoint last_mishap_{};
  std::size_t late_ = 0;
  std::function<void(bool up)> tell_;
};

}  // namespace holdfast::sim

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.hpp"

namespace holdfast::sim {

using detail::Duration;
using detail::TimePoint;
using namespace std::chrono_literals;

/// True time, what happens when, chance from one seed, and the record of it all. Nothing here depends on anything but
/// the seed.
class World {
 public:
  World(std::uint64_t seed, bool trace) : random_(seed), trace_(trace) {}

  TimePoint now() const { return now_; }
  void after(Duration delay, std::function<void()> what) { events_.emplace(now_ + delay, std::move(what)); }

  /// Lets the next thing happen; false if there is none, or a promise was broken.
  bool step() {
    if (events_.empty() || broken()) return false;
    auto event = events_.extract(events_.begin());
    now_ = event.key();
    event.mapped()();
    return true;
  }

  /// Forgets what was to happen; forgetting can make more of it.
  void clear() {
    while (!events_.empty()) std::exchange(events_, {});
  }

  bool chance(double probability) { return static_cast<double>(random_() >> 11U) * 0x1p-53 < probability; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<Duration::rep>(random_() % static_cast<std::uint64_t>((high - low).count() + 1)));
  }

  /// A line of the record; kept only when the schedule is replayed.
  void say(std::string const& who, std::string const& what);

  /// A promise was broken: the first such report ends the schedule.
  void broke(std::string const& promise, std::string const& how);
  bool broken() const { return !verdict_.empty(); }
  std::string const& verdict() const { return verdict_; }

  std::vector<std::string> const& record() const { return record_; }

 private:
  TimePoint now_{};
  std::multimap<TimePoint, std::function<void()>> events_;
  std::mt19937_64 random_;
  bool trace_;
  std::string verdict_;
  std::vector<std::string> record_;
};

}  // namespace holdfast::sim

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace holdfast::sim {

/// What a schedule is allowed to get wrong on purpose, to show that the checks notice.
enum class Break {
  nothing,
  guard,    ///< the service takes requests that come late
  drift,    ///< clocks differ by more than the allowance
  notices,  ///< the service's notices get lost on a connection that stands
  tamper,   ///< a stranger removes entries, and the checker is not told of it
  deaf,     ///< the notification thread does not run
};

/// What happened in one schedule.
struct Outcome {
  std::string broken;  ///< which promise, and how; empty if all were kept
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> record;  ///< the readable trace, if it was asked for
};

/// Runs one schedule: clients, workers, locks, readers, semaphores and mishaps drawn from the seed, on virtual clocks;
/// checks every promise of the contract that applies, at every step.
Outcome run_schedule(std::uint64_t seed, bool trace, Break what = Break::nothing);

}  // namespace holdfast::sim

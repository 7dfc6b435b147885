#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/place.hpp"

namespace holdfast::tool {

struct RunOptions {
  Place place;
  std::string name;
  std::optional<std::chrono::milliseconds> wait;   ///< unset: as long as it takes; zero: one look
  std::optional<std::chrono::milliseconds> grace;  ///< unset: 5 s, or about a third of the TTL if less
  std::string label;
  std::optional<std::string> once;  ///< what is to be done once in the whole fleet: the key of its record
  std::vector<std::string> command;
};

/// `holdfast run`: takes the lock, runs the command, gives the lock back. Returns the exit code.
///
/// With `once`, the command does not run if there is a record that it did, and that it succeeded is recorded.
///
/// The command never outlives the proven hold: TERM while the grace still fits before the deadline, KILL at it.
int run(RunOptions const& options);

}  // namespace holdfast::tool

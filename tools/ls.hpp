#pragma once

#include <string>
#include <vector>

#include "tools/place.hpp"

namespace holdfast::tool {

struct LsOptions {
  Place place;
  bool json = false;
  std::vector<std::string> names;  ///< empty: all that somebody holds or waits for
};

/// `holdfast ls`: who holds, and who waits, in order. Returns the exit code.
int ls(LsOptions const& options);

}  // namespace holdfast::tool

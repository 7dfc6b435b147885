#pragma once

#include <holdfast/config.hpp>
#include <optional>
#include <string>

#include "tools/exit_codes.hpp"

namespace holdfast::tool {

/// Where the locks are, as the command line says it.
struct Place {
  std::optional<std::string> url;  ///< --url
  bool local = false;              ///< --local
};

/// --url, else HOLDFAST_URL, else a directory of the user's on this host, which stderr is told each time: a lock that
/// reaches less far than its user believes is worse than none. --local says that it is meant.
/// Errors: the exit code; stderr has been told why.
[[nodiscard]] boost::system::result<Config, ExitCode> resolve(Place const& place);

}  // namespace holdfast::tool

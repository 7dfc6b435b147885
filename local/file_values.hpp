#pragma once

#include <holdfast/error.hpp>
#include <string>

#include "local/file_fd.hpp"
#include "local/values.hpp"

namespace holdfast::detail::file {

// The keys that commits write: `DIR/values`, which is written anew as a whole, beside the old one, synced and then put
// into its place, so that whoever dies meanwhile leaves the one or the other. Only under the directory's mutex.

/// No file: no keys. Errors: corrupt, naming it; denied; unavailable.
Result<Values> load_values(int dir, std::string const& path);

Result<void> store_values(int dir, std::string const& path, Values const& values, Rights rights);

}  // namespace holdfast::detail::file

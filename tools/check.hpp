#pragma once

#include <string>

#include "tools/place.hpp"

namespace holdfast::tool {

/// `holdfast check`: says whether a sequencer's hold still stands, as a word and as the exit code.
int check(Place const& place, std::string const& sequencer);

}  // namespace holdfast::tool

#pragma once

#include <holdfast/detail/export.hpp>
#include <string_view>

/// Mishaps on order, for unit tests of code that holds locks: each function acts on what `memory:name` stands for in
/// this process. In a build without the memory backend they are not there.
namespace holdfast::memory {

/// Nobody reaches the service until it is called with `false`; leases run on meanwhile, so that holds are lost in time.
HOLDFAST_API void set_outage(std::string_view name, bool outage);

/// Ends every session at once, as an operator or a long pause would: holds are lost at the next sign of life, within a
/// third of the TTL.
HOLDFAST_API void expire_sessions(std::string_view name);

/// Takes the entry of whoever is first in a lock's line away, behind its owner's back, who learns of it within a third
/// of the TTL.
HOLDFAST_API void remove_holder(std::string_view name, std::string_view lock);

}  // namespace holdfast::memory

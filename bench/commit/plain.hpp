#pragma once

#include <functional>
#include <string>

namespace holdfast::bench {

/// Writes a value to a key of a service that has no lock and no library of ours in between, and waits until that is
/// confirmed. `member`: "host:port".
using Write = std::function<void(std::string const& key, std::string const& value)>;
Write etcd_write(std::string const& member);
Write zk_write(std::string const& member);

}  // namespace holdfast::bench

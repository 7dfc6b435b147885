#pragma once

#include <zookeeper/zookeeper.h>

#include <string>

#include "common/error.hpp"

namespace holdfast::detail {

/// What one of ZooKeeper's errors about a path means to a user.
inline error_code zk_error(int rc, std::string const& path) {
  std::string const text = path + ": " + zerror(rc);
  switch (rc) {
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZINVALIDACL: return fail(errc::denied, text, rc);
    case ZBADARGUMENTS:
    case ZNOTEMPTY:
    case ZNOCHILDRENFOREPHEMERALS: return fail(errc::invalid_argument, text, rc);
    default: return fail(errc::unavailable, text, rc);
  }
}

}  // namespace holdfast::detail

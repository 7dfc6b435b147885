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

/// What is wrong with a path of the user's, by the server's own rules.
inline error_code not_a_path(std::string const& path) {
  bool fine = path.size() > 1 && path.front() == '/' && path.back() != '/';
  for (char const c : path) fine = fine && static_cast<unsigned char>(c) >= ' ' && c != 0x7f;
  for (auto const* const bad : {"//", "/./", "/../"}) fine = fine && (path + "/").find(bad) == std::string::npos;
  if (fine) return {};
  return fail(errc::invalid_argument, "the key " + path + " is not the path of a node, as in /app/cursor");
}

}  // namespace holdfast::detail

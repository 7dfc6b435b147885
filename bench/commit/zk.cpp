#define THREADED  // the blocking calls
#include <zookeeper/zookeeper.h>

#include <cstdlib>
#include <thread>

#include "bench/commit/plain.hpp"

namespace holdfast::bench {

Write zk_write(std::string const& member) {
  auto* const zh = zookeeper_init2(
      member.c_str(), [](zhandle_t*, int, int, char const*, void*) {}, 30000, nullptr, nullptr, ZOO_NO_LOG_CLIENTENV,
      [](char const*) {});
  while (zoo_state(zh) != ZOO_CONNECTED_STATE) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return [zh](std::string const& key, std::string const& value) {
    auto const size = static_cast<int>(value.size());
    if (zoo_set(zh, key.c_str(), value.data(), size, -1) == ZOK) return;
    if (zoo_create(zh, key.c_str(), value.data(), size, &ZOO_OPEN_ACL_UNSAFE, 0, nullptr, 0) != ZOK) std::abort();
  };
}

}  // namespace holdfast::bench

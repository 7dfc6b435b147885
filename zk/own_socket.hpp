#pragma once

#include <zookeeper/zookeeper.h>

namespace holdfast::detail {

/// Keeps the connection of a handle from programs that this process runs and from children that it forks: the C client
/// does neither, and does not tell its descriptor either.
void keep_socket_here(zhandle_t* handle);

}  // namespace holdfast::detail

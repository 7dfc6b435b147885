#pragma once

#include <zookeeper/zookeeper.h>

namespace holdfast::detail {

/// Marks the connection of a handle as not to be inherited by programs that this process runs: the C client does not,
/// and does not tell its descriptor either, so it is looked for by the address at its other end.
void set_cloexec(zhandle_t* handle);

}  // namespace holdfast::detail

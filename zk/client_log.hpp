#pragma once

#include <zookeeper/zookeeper.h>

#include <functional>
#include <string>

namespace holdfast::detail {

/// Where the C client's own log lines go: it knows one plain function per handle, without any context, so there is a
/// row of functions, each of which knows its number. What it says above INFO is passed on; nothing reaches stderr.
///
/// Thread safety: all functions safe.
struct ClientLog {
  /// Takes a free number, or -1: then the lines of that handle are dropped.
  static int take(std::function<void(std::string line)> sink);
  static void give_back(int slot);
  static log_callback_fn function(int slot);
};

}  // namespace holdfast::detail

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "etcd/layout.hpp"
#include "etcd/members.hpp"

namespace holdfast::detail::etcd {

/// Departures, told by one multiplexed watch stream.
///
/// A watch begins at *now*: one that began in the past would be caught up only every 100 ms. What went before that is
/// learned from a local read of the same range, sent along with it, which counts if the same member answered both and
/// the read is not older than the watch. The stream may be faster than the read: what it tells before that is kept back
/// until then, or the read would bring back who is gone. A watch that is cancelled, compacted or broken off says
/// nothing; it is begun anew, with another read.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class Watches {
 public:
  using Id = std::int64_t;

  /// Who is in the range, in order, the first ones only if there are more than `limit`.
  struct Present {
    std::vector<pb::KeyValue const*> keys;
    bool all = true;
    std::int64_t revision = 0;
  };

  struct Listener {
    std::function<void(Present const&)> synced;  ///< from here on every departure is told; again after a break
    std::function<void(std::string const& key, std::int64_t revision)> deleted;
    std::function<void()> broken;  ///< until it is synced again, nothing is told; may not add or remove watches
  };

  Watches(Host& host, Members& members) : host_(host), members_(members) {}

  Id add(KeyRange range, std::int64_t limit, Listener listener);
  void remove(Id id);
  void clear();

  void connected();
  void disconnected();
  void heard(pb::WatchResponse const& response);

 private:
  struct Watch {
    KeyRange range;
    std::int64_t limit = 0;
    Listener listener;
    Id on_stream = 0;  ///< its number there; another one each time it is begun
    std::optional<pb::ResponseHeader> created;
    std::optional<pb::RangeResponse> read;
    std::vector<pb::WatchResponse> early;  ///< what was told before the two were there
    bool synced = false;
  };

  void begin(Id id);
  void send_read(Id id);
  void cancel_on_stream(Watch& watch);
  void compare(Id id);
  void tell(Id id, pb::WatchResponse const& response);

  Host& host_;
  Members& members_;
  std::map<Id, Watch> watches_;
  std::map<Id, Id> by_stream_;
  Id last_ = 0;
};

}  // namespace holdfast::detail::etcd

#pragma once

#include <zookeeper/zookeeper.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/door.hpp"

namespace holdfast::detail {

/// What the server answered; each request fills in what it asks for.
struct ZkReply {
  int rc = 0;       ///< ZOK or one of ZooKeeper's errors
  TimePoint sent;   ///< not after it was sent
  TimePoint heard;  ///< not before it was answered
  std::string text;
  std::vector<std::string> names;
  Stat stat{};
  bool world_deletes = false;  ///< of an ACL: anybody may delete children
  std::size_t failed = 0;      ///< of a multi that was refused: which of its parts is why

  /// The connection went before an answer came: the request may or may not have had its effect, or still have it.
  bool cut() const {
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONMOVED || rc == ZCLOSING ||
           rc == ZINVALIDSTATE;
  }
  bool expired() const { return rc == ZSESSIONEXPIRED; }
  /// A server said this, and not the client library by itself.
  bool from_server() const { return rc == ZOK || (rc < ZAPIERROR && !cut()); }
};

using ZkDone = std::function<void(ZkReply const&)>;

/// One part of a multi.
struct ZkPart {
  enum class What { check, create, create_ephemeral, set, remove } what;
  std::string path;
  std::string data{};
  int version = -1;  ///< -1: any
};

/// One session of the ZooKeeper C client. Its threads only post: everything here is called, and calls back, inside the
/// monitor, in the order in which the server answered. What may block (name resolution, closing) runs on a thread of
/// its own meanwhile.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class ZkHandle : public std::enable_shared_from_this<ZkHandle> {
 public:
  struct Events {
    std::function<void(int error)> failed;  ///< it could not even begin: errno
    std::function<void(int timeout_ms)> connected;
    std::function<void()> disconnected;
    std::function<void()> expired;
    std::function<void()> refused;  ///< the credentials
    std::function<void(std::string const& path, bool deleted)> changed;
    std::function<void(ZkReply const&, bool write)> answered;  ///< before each request's own callback
  };

  /// It may outlive its host by the time that closing takes; `door` is then shut.
  ZkHandle(Host& host, std::shared_ptr<Door> door, Events events)
      : host_(host), door_(std::move(door)), events_(std::move(events)) {}
  ZkHandle(ZkHandle const&) = delete;

  /// `credentials`: "user:password", or empty.
  void open(std::string hosts, std::chrono::milliseconds timeout, std::string credentials);

  /// No callback runs any more; `done` follows when the session is ended, if it can be.
  void close(std::function<void()> done);

  void create(std::string const& path, std::string const& data, bool creator_only, int mode, ZkDone done);
  void remove(std::string const& path, ZkDone done);
  void children(std::string const& path, ZkDone done);
  void exists(std::string const& path, ZkDone done);
  void get(std::string const& path, ZkDone done);
  void get_acl(std::string const& path, ZkDone done);
  void sync(std::string const& path, ZkDone done);
  /// All parts or none.
  void multi(std::vector<ZkPart> const& parts, bool creator_only, ZkDone done);
  /// A write that changes nothing: the leader checks the session, and a quorum agrees. An answer that refuses it, for
  /// want of rights or of the node, says that as well.
  void write_nothing(std::string const& path, ZkDone done);
  /// Has `changed` called once when the node goes or changes, if it is there now.
  void watch(std::string const& path, ZkDone done);
  void unwatch(std::string const& path);

 private:
  struct Call;
  friend struct ZkCallbacks;

  std::unique_ptr<Call> call(ZkDone done, bool write = false);
  void sent(int rc, std::unique_ptr<Call> call);
  void let_go_of_calls();
  void opened(zhandle_t* handle, int error);
  void session_event(int state, int timeout_ms);

  Host& host_;  ///< for use inside the monitor
  std::shared_ptr<Door> const door_;
  Events events_;
  zhandle_t* zh_ = nullptr;
  bool opening_ = false;
  bool closed_ = false;
  std::function<void()> when_closed_;
  std::mutex calls_mutex_;
  std::set<Call*> calls_;  ///< with the C client, which forgets some of them when it is closed
  int log_slot_ = -1;
};

}  // namespace holdfast::detail

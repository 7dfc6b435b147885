#include "zk/handle.hpp"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "zk/client_log.hpp"
#include "zk/own_socket.hpp"

namespace holdfast::detail {
namespace {

/// Runs something that may block, on a thread of its own which takes none of the application's signals.
void aside(std::function<void()> what) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  std::thread(std::move(what)).detach();
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace

/// A request under way; owned by the C client from its sending to its completion.
struct ZkHandle::Call {
  std::shared_ptr<ZkHandle> handle;
  ZkDone done;
  bool write = false;
  ZkReply reply;
  std::vector<zoo_op_result_t> results;  ///< where a multi wants to put them
};

/// What the C client calls, on its own threads. None of this does more than copy and post.
struct ZkCallbacks {
  static ZkHandle::Call& of(void const* data) { return *static_cast<ZkHandle::Call*>(const_cast<void*>(data)); }

  static void finish(int rc, void const* data) {
    std::shared_ptr<ZkHandle::Call> const call(&of(data));
    {
      std::lock_guard const guard(call->handle->calls_mutex_);
      call->handle->calls_.erase(call.get());
    }
    call->reply.rc = rc;
    call->reply.heard = BootClock::now();
    call->handle->door_->post([call] {
      if (call->handle->closed_) return;
      call->handle->events_.answered(call->reply, call->write);
      if (!call->handle->closed_) call->done(call->reply);
    });
  }

  static void on_void(int rc, void const* data) { finish(rc, data); }
  static void on_multi(int rc, void const* data) {
    auto& call = of(data);
    while (call.reply.failed + 1 < call.results.size() && call.results[call.reply.failed].err == ZOK)
      ++call.reply.failed;
    finish(rc, data);
  }
  static void on_string(int rc, char const*, void const* data) { finish(rc, data); }
  static void on_created(int rc, char const* path, Stat const* stat, void const* data) {
    if (rc == ZOK) of(data).reply.text = path;
    if (rc == ZOK && stat) of(data).reply.stat = *stat;
    finish(rc, data);
  }
  static void on_stat(int rc, Stat const* stat, void const* data) {
    if (rc == ZOK && stat) of(data).reply.stat = *stat;
    finish(rc, data);
  }
  static void on_data(int rc, char const* value, int size, Stat const* stat, void const* data) {
    if (rc == ZOK && value && size > 0) of(data).reply.text.assign(value, static_cast<std::size_t>(size));
    on_stat(rc, stat, data);
  }
  static void on_names(int rc, String_vector const* names, void const* data) {
    if (rc == ZOK && names) of(data).reply.names.assign(names->data, names->data + names->count);
    finish(rc, data);
  }
  static void on_acl(int rc, ACL_vector* acl, Stat*, void const* data) {
    for (int i = 0; rc == ZOK && acl && i < acl->count; ++i)
      if (std::strcmp(acl->data[i].id.scheme, "world") == 0 && (acl->data[i].perms & ZOO_PERM_DELETE) != 0)
        of(data).reply.world_deletes = true;
    finish(rc, data);
  }

  static ZkHandle& owner(zhandle_t* zh) { return *static_cast<ZkHandle*>(const_cast<void*>(zoo_get_context(zh))); }

  static void on_session(zhandle_t* zh, int type, int state, char const*, void*) {
    if (type != ZOO_SESSION_EVENT) return;
    if (state == ZOO_CONNECTED_STATE) keep_socket_here(zh);
    ZkHandle& handle = owner(zh);
    handle.door_->post([self = handle.shared_from_this(), zh, state, timeout = zoo_recv_timeout(zh)] {
      if (self->closed_) return;
      self->zh_ = zh;  // its threads may be quicker than zookeeper_init2 is back
      self->session_event(state, timeout);
    });
  }

  static void on_watch(zhandle_t* zh, int type, int, char const* path, void*) {
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT) return;  // the session's own watcher has those
    ZkHandle& handle = owner(zh);
    handle.door_->post([self = handle.shared_from_this(), path = std::string(path), gone = type == ZOO_DELETED_EVENT] {
      if (!self->closed_) self->events_.changed(path, gone);
    });
  }
};

// ---- beginning and end

void ZkHandle::open(std::string hosts, std::chrono::milliseconds timeout, std::string credentials) {
  opening_ = true;
  log_slot_ = ClientLog::take([this](std::string line) {
    door_->post([self = shared_from_this(), line = std::move(line)] {
      if (!self->closed_) self->host_.log(LogLevel::warning, "ZooKeeper client: " + line);
    });
  });
  aside([self = shared_from_this(), hosts = std::move(hosts), timeout, credentials = std::move(credentials)] {
    zhandle_t* const zh =
        zookeeper_init2(hosts.c_str(), ZkCallbacks::on_session, static_cast<int>(timeout.count()), nullptr, self.get(),
                        ZOO_NO_LOG_CLIENTENV, ClientLog::function(self->log_slot_));
    int const error = errno;
    if (zh && !credentials.empty())
      zoo_add_auth(zh, "digest", credentials.data(), static_cast<int>(credentials.size()), nullptr, nullptr);
    self->door_->post([self, zh, error] { self->opened(zh, error); });
  });
}

void ZkHandle::opened(zhandle_t* handle, int error) {
  opening_ = false;
  zh_ = handle;
  if (closed_) return close(std::move(when_closed_));
  if (!zh_) events_.failed(error);
}

void ZkHandle::close(std::function<void()> done) {
  closed_ = true;
  if (opening_) {
    when_closed_ = std::move(done);
    return;
  }
  aside([self = shared_from_this(), zh = std::exchange(zh_, nullptr), done = std::move(done)] {
    if (zh) zookeeper_close(zh);
    self->let_go_of_calls();
    ClientLog::give_back(self->log_slot_);
    self->door_->post([self, done] { done(); });
  });
}

void ZkHandle::session_event(int state, int timeout_ms) {
  if (state == ZOO_CONNECTED_STATE) return events_.connected(timeout_ms);
  if (state == ZOO_EXPIRED_SESSION_STATE) return events_.expired();
  if (state == ZOO_AUTH_FAILED_STATE) return events_.refused();
  events_.disconnected();
}

// ---- requests

std::unique_ptr<ZkHandle::Call> ZkHandle::call(ZkDone done, bool write) {
  auto made = std::make_unique<Call>(Call{shared_from_this(), std::move(done), write, {}, {}});
  made->reply.sent = BootClock::now();
  std::lock_guard const guard(calls_mutex_);
  calls_.insert(made.get());
  return made;
}

/// It belongs to the C client from its sending on, unless that did not take it.
void ZkHandle::sent(int rc, std::unique_ptr<Call> call) {
  Call* const data = call.release();
  if (rc != ZOK) ZkCallbacks::finish(rc, data);
}

/// Its threads are gone: what they did not answer is never answered. Each of these keeps this handle alive.
void ZkHandle::let_go_of_calls() {
  std::set<Call*> left;
  {
    std::lock_guard const guard(calls_mutex_);
    left.swap(calls_);
  }
  for (Call* const call : left) std::unique_ptr<Call>(call).reset();
}

void ZkHandle::create(std::string const& path, std::string const& data, bool creator_only, int mode, ZkDone done) {
  auto made = call(std::move(done), true);
  auto const& acl = creator_only ? ZOO_CREATOR_ALL_ACL : ZOO_OPEN_ACL_UNSAFE;
  int const rc = zoo_acreate2(zh_, path.c_str(), data.data(), static_cast<int>(data.size()), &acl, mode,
                              ZkCallbacks::on_created, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::remove(std::string const& path, ZkDone done) {
  auto made = call(std::move(done), true);
  int const rc = zoo_adelete(zh_, path.c_str(), -1, ZkCallbacks::on_void, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::children(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_aget_children(zh_, path.c_str(), 0, ZkCallbacks::on_names, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::exists(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_aexists(zh_, path.c_str(), 0, ZkCallbacks::on_stat, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::get(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_aget(zh_, path.c_str(), 0, ZkCallbacks::on_data, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::get_acl(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_aget_acl(zh_, path.c_str(), ZkCallbacks::on_acl, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::sync(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_async(zh_, path.c_str(), ZkCallbacks::on_string, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::multi(std::vector<ZkPart> const& parts, bool creator_only, ZkDone done) {
  auto made = call(std::move(done), true);
  made->results.resize(parts.size());
  auto const& acl = creator_only ? ZOO_CREATOR_ALL_ACL : ZOO_OPEN_ACL_UNSAFE;
  std::vector<zoo_op_t> ops(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto const& [what, path, data, version] = parts[i];
    auto const size = static_cast<int>(data.size());
    switch (what) {
      case ZkPart::What::check: zoo_check_op_init(&ops[i], path.c_str(), version); break;
      case ZkPart::What::create:
      case ZkPart::What::create_ephemeral:
        zoo_create_op_init(&ops[i], path.c_str(), data.data(), size, &acl,
                           what == ZkPart::What::create ? 0 : ZOO_EPHEMERAL, nullptr, 0);
        break;
      case ZkPart::What::set: zoo_set_op_init(&ops[i], path.c_str(), data.data(), size, version, nullptr); break;
      case ZkPart::What::remove: zoo_delete_op_init(&ops[i], path.c_str(), version); break;
    }
  }
  int const rc = zoo_amulti(zh_, static_cast<int>(ops.size()), ops.data(), made->results.data(), ZkCallbacks::on_multi,
                            made.get());
  sent(rc, std::move(made));
}

void ZkHandle::write_nothing(std::string const& path, ZkDone done) {
  multi({{ZkPart::What::check, path}}, false, std::move(done));
}

void ZkHandle::watch(std::string const& path, ZkDone done) {
  auto made = call(std::move(done));
  int const rc = zoo_awget(zh_, path.c_str(), ZkCallbacks::on_watch, nullptr, ZkCallbacks::on_data, made.get());
  sent(rc, std::move(made));
}

void ZkHandle::unwatch(std::string const& path) {
  auto made = call([](ZkReply const&) {});
  // The header says pointer to a function pointer; the library takes it as the function itself.
  int const rc = zoo_aremove_all_watches(zh_, path.c_str(), ZWATCHTYPE_DATA, 0,
                                         reinterpret_cast<void_completion_t*>(ZkCallbacks::on_void), made.get());
  sent(rc, std::move(made));
}

}  // namespace holdfast::detail

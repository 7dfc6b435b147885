#include "etcd/wire.hpp"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <mutex>
#include <unordered_set>

#include "etcd/rpc.grpc.pb.h"
#include "etcd/stream.hpp"

namespace holdfast::detail::etcd {
namespace {

grpc::ChannelArguments channel_arguments(Duration patience) {
  auto const attempt = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, attempt);  // despite their names, both bound an attempt
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, attempt);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of our own, with no memory of earlier ones
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // we alone decide what is sent again
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return arguments;
}

/// gRPC ends its callback threads with the last channel, and comes to grief if one of them has to do that: so one
/// channel, which leads nowhere, is never given back.
void keep_grpc_threads() {
  struct Forever {
    std::unique_ptr<pb::KV::Stub> stub = pb::KV::NewStub(grpc::CreateCustomChannel("", nullptr, {}));
    grpc::ClientContext context;
    pb::RangeRequest request;
    pb::RangeResponse response;
  };
  [[maybe_unused]] static Forever* const volatile forever = [] {  // volatile: kept, so that leak checkers find it
    auto* const made = new Forever;
    made->stub->async()->Range(&made->context, &made->request, &made->response, [](grpc::Status const&) {});
    return made;
  }();
}

Failure to_failure(grpc::Status const& status) { return {status.error_code(), status.error_message()}; }

}  // namespace

/// What gRPC's threads touch, and so what has to live until the last of them is done with it.
class Wire::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Host& host, std::string const& member, std::shared_ptr<grpc::ChannelCredentials> const& credentials,
       Duration patience, Events heard)
      : Impl(host, grpc::CreateCustomChannel(member, credentials, channel_arguments(patience)), std::move(heard)) {}

  Impl(Host& host, std::shared_ptr<grpc::Channel> way, Events heard)
      : events(std::move(heard)),
        channel(std::move(way)),
        kv(pb::KV::NewStub(channel)),
        lease(pb::Lease::NewStub(channel)),
        watcher(pb::Watch::NewStub(channel)),
        auth(pb::Auth::NewStub(channel)),
        host_(&host) {}

  template <class Request, class Response, class Start>
  void call(Request request, Done<Response> done, Start start) {
    struct Call {
      grpc::ClientContext context;
      Request request;
      Response response;
      Failure failure;
    };
    auto const call = std::make_shared<Call>();
    call->request = std::move(request);
    prepare(call->context);
    {
      std::lock_guard const guard(mutex_);
      calls_.insert(&call->context);
    }
    start(*this, &call->context, &call->request, &call->response,
          [self = shared_from_this(), call, done = std::move(done)](grpc::Status const& status) {
            call->failure = to_failure(status);
            self->post([call, done] { done(call->failure, call->response); }, &call->context);
          });
  }

  template <class Request, class Response>
  using StreamPtr = std::shared_ptr<Stream<Request, Response>>;

  template <class Request, class Response, class Start>
  StreamPtr<Request, Response> open(std::function<void(Response const&)> Events::*heard, Start start) {
    auto stream = std::make_shared<Stream<Request, Response>>(
        [self = shared_from_this(), heard](Response response) {
          self->post([self, heard, response = std::move(response)] { (self->events.*heard)(response); });
        },
        [self = shared_from_this()](grpc::Status const& status) {
          self->post([self, failure = to_failure(status)] { self->events.broken(failure); });
        });
    prepare(stream->context);
    start(*this, &stream->context, stream.get());
    stream->start(stream);
    return stream;
  }

  /// From now on nothing is heard any more, and everything under way is called off.
  void shut() {
    {
      std::lock_guard const guard(mutex_);
      host_ = nullptr;
      for (auto* const context : calls_) context->TryCancel();
    }
    // Streams keep themselves until gRPC is done with them, and us with them: no more the other way round.
    if (auto const stream = std::exchange(watch, nullptr)) stream->cancel();
    if (auto const stream = std::exchange(keep_alive, nullptr)) stream->cancel();
  }

  Events const events;
  std::shared_ptr<grpc::Channel> const channel;
  std::unique_ptr<pb::KV::Stub> const kv;
  std::unique_ptr<pb::Lease::Stub> const lease;
  std::unique_ptr<pb::Watch::Stub> const watcher;
  std::unique_ptr<pb::Auth::Stub> const auth;
  std::string token;
  StreamPtr<pb::WatchRequest, pb::WatchResponse> watch;
  StreamPtr<pb::LeaseKeepAliveRequest, pb::LeaseKeepAliveResponse> keep_alive;

 private:
  void prepare(grpc::ClientContext& context) const {
    context.AddMetadata("hasleader", "true");  // a member without a leader is to say so, not to keep us waiting
    if (!token.empty()) context.AddMetadata("token", token);
  }

  /// Into the monitor, unless this wire was shut: also by the time it gets there.
  void post(std::function<void()> what, grpc::ClientContext* ended = nullptr) {
    std::lock_guard const guard(mutex_);
    calls_.erase(ended);
    if (host_ == nullptr) return;
    host_->post([self = shared_from_this(), what = std::move(what)] {
      if (self->open_for_business()) what();
    });
  }

  bool open_for_business() {
    std::lock_guard const guard(mutex_);
    return host_ != nullptr;
  }

  std::mutex mutex_;
  Host* host_;  ///< null once shut
  std::unordered_set<grpc::ClientContext*> calls_;
};

Wire::Wire(Host& host, std::string const& member, std::shared_ptr<grpc::ChannelCredentials> const& credentials,
           Duration patience, Events events)
    : impl_((keep_grpc_threads(), std::make_shared<Impl>(host, member, credentials, patience, std::move(events)))) {}

Wire::~Wire() { impl_->shut(); }

std::function<bool()> Wire::remains() const {
  return [channel = impl_->channel] { return channel->GetState(false) != GRPC_CHANNEL_CONNECTING; };
}

void Wire::set_token(std::string token) { impl_->token = std::move(token); }

void Wire::authenticate(pb::AuthenticateRequest request, Done<pb::AuthenticateResponse> done) {
  impl_->call(std::move(request), std::move(done),
              [](Impl& impl, auto... rest) { impl.auth->async()->Authenticate(rest...); });
}

void Wire::grant(pb::LeaseGrantRequest request, Done<pb::LeaseGrantResponse> done) {
  impl_->call(std::move(request), std::move(done),
              [](Impl& impl, auto... rest) { impl.lease->async()->LeaseGrant(rest...); });
}

void Wire::revoke(pb::LeaseRevokeRequest request, Done<pb::LeaseRevokeResponse> done) {
  impl_->call(std::move(request), std::move(done),
              [](Impl& impl, auto... rest) { impl.lease->async()->LeaseRevoke(rest...); });
}

void Wire::time_to_live(pb::LeaseTimeToLiveRequest request, Done<pb::LeaseTimeToLiveResponse> done) {
  impl_->call(std::move(request), std::move(done),
              [](Impl& impl, auto... rest) { impl.lease->async()->LeaseTimeToLive(rest...); });
}

void Wire::range(pb::RangeRequest request, Done<pb::RangeResponse> done) {
  impl_->call(std::move(request), std::move(done), [](Impl& impl, auto... rest) { impl.kv->async()->Range(rest...); });
}

void Wire::put(pb::PutRequest request, Done<pb::PutResponse> done) {
  impl_->call(std::move(request), std::move(done), [](Impl& impl, auto... rest) { impl.kv->async()->Put(rest...); });
}

void Wire::txn(pb::TxnRequest request, Done<pb::TxnResponse> done) {
  impl_->call(std::move(request), std::move(done), [](Impl& impl, auto... rest) { impl.kv->async()->Txn(rest...); });
}

void Wire::watch(pb::WatchRequest request) {
  if (!impl_->watch)
    impl_->watch = impl_->open<pb::WatchRequest>(
        &Events::watched, [](Impl& impl, auto... rest) { impl.watcher->async()->Watch(rest...); });
  impl_->watch->write(std::move(request));
}

void Wire::keep_alive(pb::LeaseKeepAliveRequest request) {
  if (!impl_->keep_alive)
    impl_->keep_alive = impl_->open<pb::LeaseKeepAliveRequest>(
        &Events::kept, [](Impl& impl, auto... rest) { impl.lease->async()->LeaseKeepAlive(rest...); });
  impl_->keep_alive->write(std::move(request));
}

}  // namespace holdfast::detail::etcd

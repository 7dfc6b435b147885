#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace holdfast::detail::etcd {

/// One bidirectional stream: messages are written in the order given, one at a time as gRPC wants it.
///
/// It keeps itself alive from start() until gRPC has said its last word. Callbacks run on gRPC's threads.
///
/// Thread safety: distinct objects safe; shared objects safe.
template <class Request, class Response>
class Stream final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  using Heard = std::function<void(Response)>;
  using Ended = std::function<void(grpc::Status const&)>;

  Stream(Heard heard, Ended ended) : heard_(std::move(heard)), ended_(std::move(ended)) {}

  /// The call was attached to this reactor.
  void start(std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    this->AddHold();  // writes come from outside gRPC's callbacks
    this->StartRead(&incoming_);
    this->StartCall();
  }

  void write(Request request) {
    std::lock_guard const guard(mutex_);
    if (over_) return;
    outgoing_.push_back(std::move(request));
    if (outgoing_.size() == 1) this->StartWrite(&outgoing_.front());
  }

  void cancel() {
    context.TryCancel();
    finish();
  }

  grpc::ClientContext context;

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return finish();
    heard_(std::exchange(incoming_, {}));
    this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return finish();
    std::lock_guard const guard(mutex_);
    outgoing_.pop_front();
    if (!outgoing_.empty() && !over_) this->StartWrite(&outgoing_.front());
  }

  void OnDone(grpc::Status const& status) override {
    auto const self = std::move(self_);
    ended_(status);
  }

  /// No more writes: gRPC may end the call as soon as nothing is under way.
  void finish() {
    {
      std::lock_guard const guard(mutex_);
      if (std::exchange(over_, true)) return;
    }
    this->RemoveHold();
  }

  Heard const heard_;
  Ended const ended_;
  Response incoming_;
  std::mutex mutex_;
  std::deque<Request> outgoing_;  ///< the first one is being written
  bool over_ = false;
  std::shared_ptr<Stream> self_;
};

}  // namespace holdfast::detail::etcd

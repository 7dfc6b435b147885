#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/backend.hpp"
#include "etcd/failure.hpp"
#include "etcd/rpc.pb.h"

namespace grpc {
class ChannelCredentials;
}

namespace holdfast::detail::etcd {

namespace pb = etcdserverpb;

/// One connection to one member: calls, one watch stream and one keep-alive stream.
///
/// It does not repair itself: whoever owns it makes another one, to this member or to the next. Once it is destroyed
/// nothing that was asked through it is answered any more, though the member may still do it.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor. Answers and events come inside the
/// monitor; gRPC's threads only post.
class Wire {
 public:
  template <class T>
  using Done = std::function<void(Failure const&, T const&)>;

  struct Events {
    std::function<void(pb::WatchResponse const&)> watched;
    std::function<void(pb::LeaseKeepAliveResponse const&)> kept;
    std::function<void(Failure const&)> broken;  ///< a stream ended; this wire is of no use any more
  };

  /// `member`: host and port. `patience`: how long connecting may take.
  Wire(Host& host, std::string const& member, std::shared_ptr<grpc::ChannelCredentials> const& credentials,
       Duration patience, Events events);
  Wire(Wire const&) = delete;
  ~Wire();

  /// What is to be kept after a wire that failed, until it says that no attempt to connect is under way: gRPC (1.51)
  /// never closes a connection that comes about after its channel went. It learns of the end of an attempt a little
  /// late, so it is to be asked once `patience` is long over.
  std::function<bool()> remains() const;

  /// Goes with every call and with streams opened from now on.
  void set_token(std::string token);

  void authenticate(pb::AuthenticateRequest request, Done<pb::AuthenticateResponse> done);
  void grant(pb::LeaseGrantRequest request, Done<pb::LeaseGrantResponse> done);
  void revoke(pb::LeaseRevokeRequest request, Done<pb::LeaseRevokeResponse> done);
  void time_to_live(pb::LeaseTimeToLiveRequest request, Done<pb::LeaseTimeToLiveResponse> done);
  void range(pb::RangeRequest request, Done<pb::RangeResponse> done);
  void put(pb::PutRequest request, Done<pb::PutResponse> done);
  void txn(pb::TxnRequest request, Done<pb::TxnResponse> done);

  // The streams are opened with the first message on them.
  void watch(pb::WatchRequest request);
  void keep_alive(pb::LeaseKeepAliveRequest request);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< kept by calls under way as well
};

/// Credentials from the files that the configuration names, or none for plain text. Errors: what reading them says.
Result<std::shared_ptr<grpc::ChannelCredentials>> make_credentials(Config const& config);

/// gRPC's own log goes to stderr, which is not ours: silence, unless the user asked for it with GRPC_VERBOSITY.
void silence_grpc();

}  // namespace holdfast::detail::etcd

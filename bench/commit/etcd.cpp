#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <memory>

#include "bench/commit/plain.hpp"
#include "etcd/rpc.grpc.pb.h"

namespace holdfast::bench {

Write etcd_write(std::string const& member) {
  namespace pb = etcdserverpb;
  std::shared_ptr<pb::KV::Stub> const stub =
      pb::KV::NewStub(grpc::CreateChannel(member, grpc::InsecureChannelCredentials()));
  return [stub](std::string const& key, std::string const& value) {
    grpc::ClientContext context;
    pb::PutRequest request;
    pb::PutResponse response;
    request.set_key(key);
    request.set_value(value);
    if (!stub->Put(&context, request, &response).ok()) std::abort();
  };
}

}  // namespace holdfast::bench

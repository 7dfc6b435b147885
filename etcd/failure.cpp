#include "etcd/failure.hpp"

#include <grpcpp/support/status_code_enum.h>

#include "common/error.hpp"

namespace holdfast::detail::etcd {
namespace {

bool says(std::string const& text, char const* words) { return text.find(words) != std::string::npos; }

bool login_refused(std::string const& text) {
  return says(text, "authentication failed") || says(text, "user name is empty") || says(text, "user name not found");
}

}  // namespace

Failure::Kind Failure::kind() const {
  switch (code) {
    case grpc::OK: return Kind::none;
    case grpc::NOT_FOUND: return says(text, "lease not found") ? Kind::lease : Kind::final;
    case grpc::UNAUTHENTICATED: return Kind::credentials;
    case grpc::INVALID_ARGUMENT:
      return says(text, "auth store is old") || says(text, "invalid auth token") ? Kind::credentials : Kind::final;
    case grpc::RESOURCE_EXHAUSTED: return says(text, "too many requests") ? Kind::overload : Kind::final;
    case grpc::PERMISSION_DENIED:
    case grpc::FAILED_PRECONDITION:
    case grpc::OUT_OF_RANGE:
    case grpc::UNIMPLEMENTED: return Kind::final;
    default: return Kind::connection;
  }
}

error_code Failure::to_error() const {
  if (code == grpc::PERMISSION_DENIED || code == grpc::UNAUTHENTICATED || login_refused(text))
    return fail(errc::denied, text, code);
  if (code == grpc::INVALID_ARGUMENT) return fail(errc::invalid_argument, text, code);
  if (code == grpc::UNIMPLEMENTED) return fail(errc::not_supported, text, code);
  return fail(errc::unavailable, text, code);
}

}  // namespace holdfast::detail::etcd

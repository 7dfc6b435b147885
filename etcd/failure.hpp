#pragma once

#include <holdfast/error.hpp>
#include <string>

namespace holdfast::detail::etcd {

/// What came of a call: nothing wrong (code 0), or gRPC's status code with the text of etcd or gRPC.
struct Failure {
  enum class Kind {
    none,
    connection,   ///< this member is of no use just now; the fate of the request is unknown
    overload,     ///< refused before anything was done; to be tried again a little later
    lease,        ///< there is no such lease
    credentials,  ///< the token has run out or is of an older state of the users: log in again
    final,        ///< trying again would not help
  };

  int code = 0;
  std::string text;

  explicit operator bool() const { return code != 0; }
  Kind kind() const;
  error_code to_error() const;  ///< of a final one: denied, invalid_argument or unavailable
};

}  // namespace holdfast::detail::etcd

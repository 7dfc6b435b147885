#pragma once

#include "common/backend.hpp"

namespace holdfast::detail {

/// Errors: of reading the files for TLS; not_supported in a child that was forked from a process in which gRPC ran.
Result<std::unique_ptr<Backend>> make_etcd_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

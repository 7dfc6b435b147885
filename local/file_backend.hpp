#pragma once

#include <memory>

#include "common/backend.hpp"

namespace holdfast::detail {

/// The backend for `file:`: a directory on this host, with the kernel as the service. A session lives as long as its
/// process does not die; nothing renews it, and a process that is stopped keeps what it holds.
///
/// Thread safety: distinct objects safe; shared objects unsafe: only inside the host's monitor.
std::unique_ptr<Backend> make_file_backend(Config const& config, Host& host);

}  // namespace holdfast::detail

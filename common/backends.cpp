#include "common/backend.hpp"
#include "common/error.hpp"
#ifdef HOLDFAST_WITH_ETCD
#include "etcd/make.hpp"
#endif
#ifdef HOLDFAST_WITH_FILE
#include "local/file_backend.hpp"
#endif
#ifdef HOLDFAST_WITH_MEMORY
#include "local/memory_backend.hpp"
#endif
#ifdef HOLDFAST_WITH_ZK
#include "zk/backend.hpp"
#endif

namespace holdfast::detail {

Result<std::unique_ptr<Backend>> make_backend(Config const& config, [[maybe_unused]] Host& host) {
#ifdef HOLDFAST_WITH_ETCD
  if (config.scheme == "etcd") return make_etcd_backend(config, host);
#endif
#ifdef HOLDFAST_WITH_FILE
  if (config.scheme == "file") return make_file_backend(config, host);
#endif
#ifdef HOLDFAST_WITH_MEMORY
  if (config.scheme == "memory") return make_memory_backend(config, host);
#endif
#ifdef HOLDFAST_WITH_ZK
  if (config.scheme == "zk") return make_zk_backend(config, host);
#endif
  return fail(errc::not_supported, "this build of holdfast has no backend for " + config.scheme + ":");
}

}  // namespace holdfast::detail

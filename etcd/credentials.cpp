#include <grpc/support/log.h>
#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <mutex>

#include "common/config_parse.hpp"
#include "common/error.hpp"
#include "etcd/wire.hpp"

namespace holdfast::detail::etcd {
namespace {

constexpr std::size_t kFileLimit = 1 << 20;

Result<std::string> read_pem(std::string const& file) {
  std::string content;
  if (file.empty()) return content;
  if (int const error = read_some(file.c_str(), kFileLimit, content); error != 0)
    return fail_errno(error, "cannot read " + file);
  if (content.find("-----BEGIN ") == std::string::npos)
    return fail(errc::invalid_argument, file + " is not in PEM form");
  return content;
}

}  // namespace

Result<std::shared_ptr<grpc::ChannelCredentials>> make_credentials(Config const& config) {
  if (!config.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  for (auto const& [text, file] :
       {std::pair(&options.pem_root_certs, &config.ca), std::pair(&options.pem_cert_chain, &config.cert),
        std::pair(&options.pem_private_key, &config.key)}) {
    auto content = read_pem(*file);
    if (!content) return content.error();
    *text = std::move(*content);
  }
  return grpc::SslCredentials(options);
}

void silence_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

}  // namespace holdfast::detail::etcd

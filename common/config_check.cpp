#include <array>
#include <utility>

#include "common/config_parse.hpp"
#include "common/url.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::size_t kLabelLimit = 256;
constexpr std::size_t kRootLimit = 1024;
constexpr std::size_t kHostsLimit = 64;

bool remote(Config const& config) { return config.scheme == "zk" || config.scheme == "etcd"; }

Outcome<void> check_endpoints(Config const& config) {
  if (!remote(config)) {
    if (!config.endpoints.empty()) return Problem{"endpoints: " + config.scheme + ": has no hosts"};
    return {};
  }
  if (config.endpoints.empty()) return Problem{"endpoints: " + config.scheme + ": needs at least one host"};
  if (config.endpoints.size() > kHostsLimit) {
    return Problem{"endpoints: more than " + std::to_string(kHostsLimit) + " hosts"};
  }
  for (Config::Endpoint const& endpoint : config.endpoints) {
    if (!valid_host(endpoint.host)) return Problem{"endpoints: " + in_quotes(endpoint.host) + " is not a host"};
    if (endpoint.port == 0) return Problem{"endpoints: host " + in_quotes(endpoint.host) + " has no port"};
  }
  return {};
}

/// "" or "/a/b", fit for a ZooKeeper path and an etcd prefix alike.
Outcome<void> check_remote_root(std::string_view root) {
  if (root.empty()) return {};
  if (!root.starts_with('/')) return Problem{"root: " + in_quotes(root) + " does not begin with '/'"};
  if (!valid_utf8(root)) return Problem{"root: it is not valid UTF-8"};
  for (char const c : root) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return Problem{"root: it has a control character"};
  }
  while (!root.empty()) {
    root.remove_prefix(1);
    std::string_view const segment = root.substr(0, root.find('/'));
    if (segment.empty()) return Problem{"root: it has an empty segment ('//' or a '/' at the end)"};
    if (segment == "." || segment == "..") return Problem{"root: a segment is " + in_quotes(segment)};
    root.remove_prefix(segment.size());
  }
  return {};
}

Outcome<void> check_root(Config const& config) {
  std::string const& root = config.root;
  if (root.size() > kRootLimit) return Problem{"root: longer than " + std::to_string(kRootLimit) + " bytes"};
  if (root.find('\0') != std::string::npos) return Problem{"root: it has a NUL byte"};
  if (remote(config)) return check_remote_root(root);
  if (config.scheme == "file" && root.empty()) return Problem{"file: needs a directory, as in file:/var/lib/app/locks"};
  if (config.scheme == "memory") {
    if (root.empty()) return Problem{"memory: needs a name, as in memory:name"};
    if (!valid_utf8(root)) return Problem{"root: the name of memory: is not valid UTF-8"};
  }
  return {};
}

Outcome<void> check_duration(std::string_view name, milliseconds value, std::chrono::hours most) {
  if (value > 0ms && value <= most) return {};
  return Problem{std::string(name) + ": " + std::to_string(value.count()) +
                 "ms is out of range; it must be above 0 and at most " + std::to_string(most.count()) + "h"};
}

Outcome<void> check_durations(Config const& config) {
  if (config.ttl) {
    if (auto ok = check_duration("ttl", *config.ttl, 24h); !ok) return ok;
  }
  if (auto ok = check_duration("connect_timeout", config.connect_timeout, 1h); !ok) return ok;
  if (auto ok = check_duration("request_timeout", config.request_timeout, 1h); !ok) return ok;
  if (auto ok = check_duration("close_timeout", config.close_timeout, 1h); !ok) return ok;
  if (config.ping_lag == 0ms) return {};
  if (config.scheme != "zk") return Problem{"ping_lag does not apply to " + config.scheme + ":", errc::not_supported};
  return check_duration("ping_lag", config.ping_lag, 1h);
}

Outcome<void> check_drift_and_label(Config const& config) {
  // Written so that NaN fails as well.
  if (!(config.drift >= 0 && config.drift <= 0.5)) return Problem{"drift: it is not between 0% and 50%"};
  if (config.label.size() > kLabelLimit) {
    return Problem{"label: it is " + std::to_string(config.label.size()) + " bytes; the limit is " +
                   std::to_string(kLabelLimit)};
  }
  if (!valid_utf8(config.label)) return Problem{"label: it is not valid UTF-8"};
  return {};
}

Outcome<void> check_credentials(Config const& config) {
  std::array const texts = {std::pair("ca", &config.ca), std::pair("cert", &config.cert), std::pair("key", &config.key),
                            std::pair("user", &config.user), std::pair("password", &config.password)};
  for (auto const& [name, value] : texts) {
    if (value->find('\0') != std::string::npos) return Problem{std::string(name) + ": it has a NUL byte"};
    if (value->size() > kSecretLimit) {
      return Problem{std::string(name) + ": longer than " + std::to_string(kSecretLimit) + " bytes"};
    }
    if (!value->empty() && !remote(config)) {
      return Problem{std::string(name) + " does not apply to " + config.scheme + ":", errc::not_supported};
    }
  }
  if (config.tls && !remote(config))
    return Problem{"tls does not apply to " + config.scheme + ":", errc::not_supported};
  if (!config.password.empty() && config.user.empty()) return Problem{"user: a password is given, but no user"};
  // Without this a forgotten tls=true would send everything in clear.
  for (auto const& [name, value] : {texts[0], texts[1], texts[2]}) {
    if (!value->empty() && !config.tls) return Problem{std::string(name) + ": it needs tls=true"};
  }
  if (config.cert.empty() != config.key.empty()) {
    return Problem{std::string(config.cert.empty() ? "cert" : "key") + ": cert and key go together"};
  }
  return {};
}

}  // namespace

Outcome<void> check_config(Config const& config) {
  if (!remote(config) && config.scheme != "file" && config.scheme != "memory") {
    return Problem{"scheme: " + in_quotes(config.scheme) + " is unknown; known are zk, etcd, file and memory"};
  }
  for (auto* const check : {check_endpoints, check_root, check_durations, check_drift_and_label, check_credentials}) {
    if (auto ok = check(config); !ok) return ok;
  }
  return {};
}

}  // namespace holdfast::detail

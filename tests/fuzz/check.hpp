#pragma once

#include <cstdio>
#include <cstdlib>
#include <holdfast/config.hpp>
#include <string>
#include <string_view>

#include "common/names.hpp"

// What the fuzzers share: a property that must hold, and a Config written back as text.

namespace holdfast::fuzz {

inline void require(bool holds, char const* property) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", property);
  std::abort();
}

/// The keys of a Config but for drift (a double has many spellings), each through `put(key, value)`.
template <class Put>
void for_each_key(Config const& config, Put put) {
  auto const text = [&](char const* key, std::string const& value) {
    if (!value.empty()) put(key, value);
  };
  auto const duration = [&](char const* key, std::chrono::milliseconds value) {
    put(key, std::to_string(value.count()) + "ms");
  };
  if (config.ttl) duration("ttl", *config.ttl);
  duration("connect_timeout", config.connect_timeout);
  duration("request_timeout", config.request_timeout);
  duration("close_timeout", config.close_timeout);
  text("label", config.label);
  put("fence_epoch", std::to_string(config.fence_epoch));
  put("tls", config.tls ? "true" : "false");
  text("ca", config.ca);
  text("cert", config.cert);
  text("key", config.key);
  text("user", config.user);
  text("password", config.password);
}

/// Scheme, hosts and root, without a query.
inline std::string place_of(Config const& config) {
  std::string out = config.scheme + ":";
  char const* separator = "//";
  for (Config::Endpoint const& endpoint : config.endpoints) {
    bool const ipv6 = endpoint.host.find(':') != std::string::npos;
    out += separator + (ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
    separator = ",";
  }
  std::string_view root = config.root;
  if (!config.endpoints.empty() && !root.empty()) {
    out += '/';
    root.remove_prefix(1);
  }
  return out + detail::percent_encode(root);
}

inline bool same(Config const& a, Config const& b) {
  return a.scheme == b.scheme && a.endpoints == b.endpoints && a.root == b.root && a.ttl == b.ttl &&
         a.connect_timeout == b.connect_timeout && a.request_timeout == b.request_timeout &&
         a.close_timeout == b.close_timeout && a.label == b.label && a.fence_epoch == b.fence_epoch && a.tls == b.tls &&
         a.ca == b.ca && a.cert == b.cert && a.key == b.key && a.user == b.user && a.password == b.password;
}

}  // namespace holdfast::fuzz

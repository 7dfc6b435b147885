#pragma once

#include <cstdint>
#include <holdfast/config.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text.hpp"

namespace holdfast::detail {

/// A URL taken apart and not yet decoded; the parts point into its text.
struct Url {
  std::string_view scheme;
  std::optional<std::string_view> authority;  ///< what "//" introduces, up to the next '/'
  std::string_view path;
  std::vector<std::pair<std::string_view, std::string_view>> query;
};

/// Problems never repeat the text, which may hold a password.
Outcome<Url> split_url(std::string_view text);

/// "h1:2181,h2,[::1]:2181"; a host is named by its place in the list, since what stands there may be a misplaced
/// secret.
Outcome<std::vector<Config::Endpoint>> parse_hosts(std::string_view authority, std::uint16_t default_port);

/// A host name, an IPv4 or a (bare) IPv6 address.
bool valid_host(std::string_view host);

}  // namespace holdfast::detail

#include "common/url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

namespace holdfast::detail {
namespace {

constexpr std::size_t kUrlLimit = 64 * 1024;
constexpr std::size_t kHostLimit = 253;  // of the domain name system

bool letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Cuts the text before `separator` off the front of `rest`; all of it if there is none.
std::string_view take(std::string_view& rest, char separator) {
  std::size_t const end = rest.find(separator);
  std::string_view const taken = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return taken;
}

bool ipv6(std::string_view host) {
  in6_addr address{};
  return host.size() <= kHostLimit && host.find('\0') == std::string_view::npos &&
         ::inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

Outcome<std::vector<std::pair<std::string_view, std::string_view>>> split_query(std::string_view rest) {
  std::vector<std::pair<std::string_view, std::string_view>> query;
  bool more = !rest.empty();
  while (more) {
    more = rest.find('&') != std::string_view::npos;
    std::string_view value = take(rest, '&');
    bool const complete = value.find('=') != std::string_view::npos;
    std::string_view const key = take(value, '=');
    if (!complete || key.empty()) {
      return Problem{"parameter " + std::to_string(query.size() + 1) +
                     " of the URL is not key=value (an '&' inside a value is written %26)"};
    }
    query.emplace_back(key, value);
  }
  return query;
}

struct HostPort {
  std::string_view host;
  std::optional<std::string_view> port;
};

Outcome<HostPort> split_host(std::string_view text) {
  if (text.empty()) return Problem{"it is empty"};
  if (!text.starts_with('[')) {
    std::size_t const colon = text.rfind(':');
    if (colon == std::string_view::npos) return HostPort{text, std::nullopt};
    if (text.find(':') != colon) return Problem{"an IPv6 address goes in brackets, as in [::1]:2379"};
    return HostPort{text.substr(0, colon), text.substr(colon + 1)};
  }
  std::size_t const close = text.find(']');
  if (close == std::string_view::npos) return Problem{"the closing bracket is missing"};
  std::string_view const host = text.substr(1, close - 1);
  std::string_view const rest = text.substr(close + 1);
  if (!ipv6(host)) return Problem{"what is in brackets is not an IPv6 address"};
  if (rest.empty()) return HostPort{host, std::nullopt};
  if (!rest.starts_with(':')) return Problem{"only :port may follow the closing bracket"};
  return HostPort{host, rest.substr(1)};
}

Outcome<Config::Endpoint> parse_host(std::string_view text, std::uint16_t default_port) {
  auto const parts = split_host(text);
  if (!parts) return parts.error();
  if (!valid_host(parts->host)) return Problem{"it is not a host name or address"};
  Config::Endpoint endpoint{std::string(parts->host), default_port};
  if (parts->port) {
    auto const port = parse_decimal(*parts->port);
    if (!port || *port == 0 || *port > 65535) return Problem{"the port is not a number from 1 to 65535"};
    endpoint.port = static_cast<std::uint16_t>(*port);
  }
  return endpoint;
}

}  // namespace

Outcome<Url> split_url(std::string_view text) {
  if (text.empty()) return Problem{"the URL is empty"};
  if (text.size() > kUrlLimit) return Problem{"the URL is longer than " + std::to_string(kUrlLimit) + " bytes"};
  if (text.find('#') != std::string_view::npos) return Problem{"a '#' in a URL is written %23"};

  Url url;
  std::size_t const colon = text.find(':');
  url.scheme = text.substr(0, colon);
  if (colon == std::string_view::npos || colon == 0 ||
      !std::all_of(url.scheme.begin(), url.scheme.end(), letter_or_digit)) {
    return Problem{"the URL does not begin with a scheme, as in etcd://host:2379/root"};
  }

  std::string_view rest = text.substr(colon + 1);
  std::string_view place = take(rest, '?');
  auto query = split_query(rest);
  if (!query) return query.error();
  url.query = std::move(*query);

  if (place.starts_with("//")) {
    place.remove_prefix(2);
    url.authority = place.substr(0, place.find('/'));
    place.remove_prefix(url.authority->size());
  }
  url.path = place;
  return url;
}

bool valid_host(std::string_view host) {
  if (host.empty() || host.size() > kHostLimit) return false;
  auto const fits = [](char c) { return letter_or_digit(c) || c == '.' || c == '-' || c == '_'; };
  return std::all_of(host.begin(), host.end(), fits) || ipv6(host);
}

Outcome<std::vector<Config::Endpoint>> parse_hosts(std::string_view authority, std::uint16_t default_port) {
  if (authority.find('@') != std::string_view::npos) {
    return Problem{"a login does not go before the host: use the keys user and password"};
  }
  std::vector<Config::Endpoint> hosts;
  bool more = true;
  while (more) {
    more = authority.find(',') != std::string_view::npos;
    auto endpoint = parse_host(take(authority, ','), default_port);
    if (!endpoint) return Problem{"host " + std::to_string(hosts.size() + 1) + " of the URL: " + endpoint.error().text};
    hosts.push_back(std::move(*endpoint));
  }
  return hosts;
}

}  // namespace holdfast::detail

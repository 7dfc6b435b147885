#include <algorithm>
#include <cstdlib>
#include <holdfast/config.hpp>

#include "common/config_parse.hpp"
#include "common/error.hpp"
#include "common/names.hpp"
#include "common/url.hpp"

namespace holdfast {
namespace detail {
namespace {

constexpr std::uint16_t kZooKeeperPort = 2181;
constexpr std::uint16_t kEtcdPort = 2379;

error_code to_error(Problem const& problem) { return fail(problem.condition, problem.text); }

Outcome<void> set_root(Config& config, std::string_view path) {
  auto decoded = percent_decode(path);
  if (!decoded) return Problem{"root: the path has a broken percent escape (a '%' is written %25)"};
  config.root = std::move(*decoded);
  return {};
}

Outcome<void> apply_remote_place(Config& config, Url const& url) {
  if (!url.authority || url.authority->empty()) {
    return Problem{config.scheme + ": needs hosts, as in " + config.scheme + "://h1,h2,h3/root"};
  }
  auto hosts = parse_hosts(*url.authority, config.scheme == "zk" ? kZooKeeperPort : kEtcdPort);
  if (!hosts) return hosts.error();
  config.endpoints = std::move(*hosts);
  if (auto ok = set_root(config, url.path); !ok) return ok;
  if (config.root.ends_with('/')) config.root.pop_back();
  return {};
}

Outcome<void> apply_file_place(Config& config, Url const& url) {
  if (url.authority && !url.authority->empty()) {
    return Problem{"file: is on this host and takes no host name; write file:/path or file:///path"};
  }
  if (auto ok = set_root(config, url.path); !ok) return ok;
  while (config.root.size() > 1 && config.root.ends_with('/')) config.root.pop_back();
  return {};
}

Outcome<void> apply_memory_place(Config& config, Url const& url) {
  if (url.authority) return Problem{"memory: takes a name without slashes before it, as in memory:name"};
  return set_root(config, url.path);
}

Outcome<void> apply_place(Config& config, Url const& url) {
  config.scheme = url.scheme;
  if (url.scheme == "zk" || url.scheme == "etcd") return apply_remote_place(config, url);
  if (url.scheme == "file") return apply_file_place(config, url);
  if (url.scheme == "memory") return apply_memory_place(config, url);
  return Problem{"scheme " + in_quotes(url.scheme) + " is unknown; known are zk, etcd, file and memory"};
}

Result<std::string> decode_value(Key const& key, std::string_view encoded) {
  // People write drift=1%, and a '%' at the end of a value cannot be an escape.
  if (key.name == "drift" && encoded.ends_with('%')) return percent_decode(std::string(encoded) + "25");
  return percent_decode(encoded);
}

Problem unknown_key(Draft const& draft, std::string_view name) {
  // An '&' inside a password makes its second half look like a key.
  bool const after_secret = std::find(draft.given.begin(), draft.given.end(), "password") != draft.given.end();
  if (after_secret) return Problem{"unknown key after password (an '&' inside a value is written %26)"};
  return Problem{"unknown key " + in_quotes(name) + "; known are " + key_names()};
}

}  // namespace

Outcome<void> apply_url(Draft& draft, std::string_view text) {
  auto const url = split_url(text);
  if (!url) return url.error();
  if (auto ok = apply_place(draft.config, *url); !ok) return ok;
  for (auto const& [name, encoded] : url->query) {
    Key const* const key = find_key(name);
    if (key == nullptr) return unknown_key(draft, name);
    auto const value = decode_value(*key, encoded);
    if (!value) return Problem{std::string(name) + ": the value has a broken percent escape (a '%' is written %25)"};
    if (auto ok = set_key(draft, *key, *value); !ok) return ok;
  }
  return {};
}

}  // namespace detail

Result<Config> Config::from_url(std::string_view url) {
  detail::Draft draft;
  if (auto const ok = detail::apply_url(draft, url); !ok) return detail::to_error(ok.error());
  if (auto const ok = detail::check_config(draft.config); !ok) return detail::to_error(ok.error());
  return std::move(draft.config);
}

Result<Config> Config::from_env() {
  char const* const url = std::getenv("HOLDFAST_URL");
  if (url == nullptr) return detail::fail(errc::invalid_argument, "HOLDFAST_URL is not set");
  return from_url(url);
}

Result<void> Config::validate() const {
  if (auto const ok = detail::check_config(*this); !ok) return detail::to_error(ok.error());
  return {};
}

}  // namespace holdfast

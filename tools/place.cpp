#include "tools/place.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace holdfast::tool {
namespace {

namespace fs = std::filesystem;

/// The user's state directory, after the XDG base directory specification: it tells us to ignore relative paths.
std::optional<fs::path> state_home() {
  if (char const* const xdg = std::getenv("XDG_STATE_HOME"); xdg && fs::path(xdg).is_absolute()) return xdg;
  if (char const* const home = std::getenv("HOME"); home && fs::path(home).is_absolute()) {
    return fs::path(home) / ".local" / "state";
  }
  return std::nullopt;
}

using Resolved = boost::system::result<Config, ExitCode>;

Resolved no_home() {
  std::fputs("holdfast: neither XDG_STATE_HOME nor HOME is an absolute path: say where with --url\n", stderr);
  return ExitCode{exit_codes::usage};
}

Resolved cannot_create(fs::path const& directory, std::error_code const& why) {
  std::fprintf(stderr, "holdfast: cannot create %s: %s\n", directory.c_str(), why.message().c_str());
  bool const denied = why == std::errc::permission_denied || why == std::errc::read_only_file_system;
  return ExitCode{denied ? exit_codes::denied : exit_codes::unavailable};
}

Resolved on_this_host() {
  auto const home = state_home();
  if (!home) return no_home();
  Config config;
  config.scheme = "file";
  config.root = (*home / "holdfast").string();
  std::error_code error;
  bool const created = fs::create_directories(config.root, error);
  if (error) return cannot_create(config.root, error);
  if (created) fs::permissions(config.root, fs::perms::owner_all, error);  // state is the user's own business
  return config;
}

Resolved said(Result<Config> config) {
  if (!config) return ExitCode{complain(config.error())};
  return std::move(*config);
}

}  // namespace

boost::system::result<Config, ExitCode> resolve(Place const& place) {
  if (place.url) return said(Config::from_url(*place.url));
  if (place.local) return on_this_host();
  // Set but empty is an error too: most likely a deployment whose setting went missing.
  if (std::getenv("HOLDFAST_URL")) return said(Config::from_env());
  std::fputs("holdfast: no --url and no HOLDFAST_URL: this lock holds on this host only (--local says it is meant)\n",
             stderr);
  return on_this_host();
}

}  // namespace holdfast::tool

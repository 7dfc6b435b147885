#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// How important a log line is. The library reports changes of state only: connected, suspect, lost, recovered.
enum class LogLevel { info, warning, error };

/// Receives the library's log lines, on the client's notification thread. Never payloads, never credentials.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Which service to use, and how. The same keys for every backend, so that a switch of backend changes only the URL.
///
///     zk://h1:2181,h2:2181/root        a ZooKeeper ensemble
///     etcd://h1:2379,h2:2379/root      an etcd cluster
///     file:/var/lib/app/locks          a directory on this host
///     memory:name                      inside this process, for unit tests
///
/// followed by `?key=value&key=value`. Values and paths are percent-decoded. Durations are a whole number and a unit:
/// `ms`, `s`, `m`, `h`.
///
///     key              default   meaning
///     ttl              15s       how long a session outlives its last sign of life: the worst pause plus a failover,
///                                not the length of the work
///     connect_timeout  5s        how long `Client::connect` tries
///     request_timeout  5s        how long `try_acquire`, `inspect` and `check` wait for an answer
///     close_timeout    2s        how long an orderly end waits for the service
///     ping_lag         ttl/4     zk: how late the leader may hear of what a member answered: at least half a tick.
///     Given
///                                only to raise it, where `minSessionTimeout` is below two ticks or observers hang on
///                                observers; at most two fifths of the ttl
///     drift            1%        how far clock rates may differ; deadlines are shortened by it (0% to 50%)
///     label            host:pid  what others see in `inspect` and `ls` (256 bytes at most)
///     fence_epoch      0         see Fence
///     tls              false     `true` or `false`
///     ca, cert, key              files in PEM form
///     user                       whom to log in as
///     password                   the secret itself; or, at most one of them,
///     password_file              the file that has it
///     password_env               the environment variable that has it
///
/// Thread safety: distinct objects safe; shared objects unsafe.
struct HOLDFAST_API Config {
  struct Endpoint {
    std::string host;
    std::uint16_t port = 0;
    friend bool operator==(Endpoint const&, Endpoint const&) = default;
  };

  std::string scheme;               ///< "zk", "etcd", "file" or "memory"
  std::vector<Endpoint> endpoints;  ///< zk and etcd only
  std::string root;  ///< the path under which locks live; the directory of `file:`, the name of `memory:`

  std::optional<std::chrono::milliseconds> ttl;  ///< unset: 15 s, bent to what the service grants
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds request_timeout{5000};
  std::chrono::milliseconds close_timeout{2000};
  std::chrono::milliseconds ping_lag{0};  ///< zk only; 0, or less than a quarter of the ttl: that
  double drift = 0.01;
  std::string label;  ///< empty: host:pid
  std::uint64_t fence_epoch = 0;

  bool tls = false;
  std::string ca, cert, key;
  std::string user;
  std::string password;  ///< the secret, wherever it came from; no function here prints it

  LogSink log;  ///< empty: silence

  /// Reads a URL. Errors: invalid_argument, naming the scheme, key or value.
  [[nodiscard]] static Result<Config> from_url(std::string_view url);

  /// Reads a TOML file with `url = "…"` and, beside it, any of the keys above; a key given twice is an error.
  /// Errors: invalid_argument, naming file and key; denied or unavailable if it cannot be read.
  [[nodiscard]] static Result<Config> from_file(std::filesystem::path const& file);

  /// Reads the URL in HOLDFAST_URL. Errors: invalid_argument, also if it is not set.
  [[nodiscard]] static Result<Config> from_env();

  /// Checks a Config that was filled in by hand; `Client::connect` calls it. Errors: invalid_argument, naming the key.
  [[nodiscard]] Result<void> validate() const;
};

}  // namespace holdfast

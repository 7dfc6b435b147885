#pragma once

#include <cstdio>
#include <holdfast/error.hpp>

namespace holdfast::tool {

/// What the command exits with, after sysexits.h where it has a word for it. Scripts rely on these numbers.
namespace exit_codes {
inline constexpr int ok = 0;
inline constexpr int stale = 1;          ///< `check`: that hold no longer stands
inline constexpr int usage = 64;         ///< EX_USAGE
inline constexpr int unavailable = 69;   ///< EX_UNAVAILABLE: the service could not be reached
inline constexpr int internal = 70;      ///< EX_SOFTWARE: what should not happen
inline constexpr int not_acquired = 75;  ///< EX_TEMPFAIL: not acquired in time
inline constexpr int lost = 76;          ///< the lock was lost and the command was stopped
inline constexpr int denied = 77;        ///< EX_NOPERM
inline constexpr int bad_state = 78;     ///< EX_CONFIG: damaged state, or a backend that cannot do this
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
inline constexpr int by_signal = 128;  ///< plus the signal's number
}  // namespace exit_codes

/// An exit code as an error: whoever returns it has said why.
struct ExitCode {
  int value;
};

inline int exit_code_of(error_code const& error) {
  if (error == errc::busy || error == errc::timed_out) return exit_codes::not_acquired;
  if (error == errc::unavailable || error == errc::unknown_outcome) return exit_codes::unavailable;
  if (error == errc::invalid_argument) return exit_codes::usage;
  if (error == errc::denied) return exit_codes::denied;
  if (error == errc::lost) return exit_codes::lost;
  if (error == errc::corrupt || error == errc::conflict || error == errc::not_supported) return exit_codes::bad_state;
  return exit_codes::internal;
}

/// Says what went wrong, and returns the exit code for it.
inline int complain(error_code const& error) {
  std::fprintf(stderr, "holdfast: %s\n", error.message().c_str());
  return exit_code_of(error);
}

}  // namespace holdfast::tool

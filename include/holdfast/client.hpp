#pragma once

#include <chrono>
#include <holdfast/config.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/sequencer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class Once;

namespace detail {
class Handle;
}

/// One place in a lock's line, as `Client::inspect` saw it.
struct Participant {
  std::string label;                                           ///< what the owner calls itself
  Fence fence;                                                 ///< the fence that its grant carries, or will carry
  bool holds = false;                                          ///< granted, by the line's order; otherwise waiting
  std::optional<std::chrono::system_clock::time_point> since;  ///< when it joined, where the service knows
};

/// A connection to the coordination service: one session, shared by all locks and holds made from it.
///
/// Copies share the session; they, the locks and the holds keep it alive. When the last of them goes, or on `close()`,
/// the session ends and with it every entry, so that the next in line takes over at once. When the session is lost, the
/// client opens a new one by itself: old holds are lost, new acquires work.
///
/// After `fork()` every call in the child fails with `closed`, and the parent is undisturbed: connect anew in the
/// child.
///
/// Thread safety: distinct objects safe; shared objects safe. Completions run on the handler's associated executor,
/// else on the client's one notification thread. A client runs two threads, whatever the number of locks.
class HOLDFAST_API Client {
 public:
  Client(Client const&) = default;  // and so a move is a copy: there is no empty client
  Client& operator=(Client const&) = default;
  ~Client() = default;

  /// Connects, waiting for a session for at most `connect_timeout`.
  /// Errors: unavailable (with what was tried), denied, invalid_argument (naming the key), not_supported, corrupt.
  [[nodiscard]] static Result<Client> connect(std::string_view url);
  [[nodiscard]] static Result<Client> connect(Config config);

  /// A lock by its name: 1 to 200 bytes of UTF-8 after percent-encoding (letters, digits, `-`, `_`, `.` and `~` stay as
  /// they are). A bad name is reported by the lock's calls as invalid_argument.
  [[nodiscard]] Lock lock(std::string_view name) const;

  /// The line of one lock: its holder first, then the waiters in order. Empty if nobody is there.
  /// Errors: unavailable, denied, closed, would_deadlock, invalid_argument. Round trips: 1.
  [[nodiscard]] Result<std::vector<Participant>> inspect(std::string_view name) const;

  /// The names of all locks that somebody holds or waits for, in byte order. Errors: as inspect. Round trips: 1.
  [[nodiscard]] Result<std::vector<std::string>> names() const;

  /// Whether the hold that a sequencer stands for still does: true current, false stale.
  /// Errors: as inspect; invalid_argument also if the sequencer is of another service or root. Round trips: 1.
  [[nodiscard]] Result<bool> check(Sequencer const& sequencer) const;

  /// The value of a key that `Hold::commit` writes, as it is now and not as some member remembers it; none if the key
  /// is not there. Errors: as inspect. Round trips: 1.
  [[nodiscard]] Result<std::optional<std::string>> read(std::string_view key) const;

  /// Something to be done once in the whole fleet, under the lock `lock`; both names as for lock(). See once.hpp.
  [[nodiscard]] Once once(std::string_view lock, std::string_view key) const;

  /// The lease that the service granted; none where the kernel watches over the owner (`file:`).
  [[nodiscard]] std::optional<std::chrono::milliseconds> ttl() const;

  /// Ends the session: waiting acquires end with `closed`, holds are lost, others take over at once. Waits for the
  /// service for at most `close_timeout`; safe on any thread, also the notification thread. Further calls fail with
  /// `closed`. Errors: unknown_outcome if the service did not confirm in time: then entries go with the TTL.
  Result<void> close();

 private:
  friend struct detail::Access;
  explicit Client(std::shared_ptr<detail::Handle> handle);

  std::shared_ptr<detail::Handle> handle_;
};

}  // namespace holdfast

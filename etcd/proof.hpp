#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace holdfast::detail::etcd {

/// What the header of a reply tells of the member that sent it.
struct Stamp {
  std::uint64_t member = 0;
  std::uint64_t term = 0;
  friend bool operator==(Stamp const&, Stamp const&) = default;
};

/// Decides which renewals of a lease prove that it lives.
///
/// A leader that was deposed while it was paused still answers keep-alives in full, though the true leader's clock for
/// the lease runs on. So a renewal sent at s counts only if a linearizable read, sent after the renewal's answer to the
/// same member, was answered, and both answers carry the term that this member had reported before s: then the leader
/// of that term, and no other, renewed the lease after s, and was still the leader when the read was begun. A later
/// leader only lengthens the lease, since it starts every lease anew.
///
/// No input or output of its own; tests/unit/etcd_proof_test.cpp searches a model of a cluster for counter-examples.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class RenewalProof {
 public:
  /// Any answer on this connection.
  void heard(Stamp stamp) { known_ = stamp; }

  /// Another connection: what was under way proves nothing any more.
  void forget() { *this = {}; }

  /// A renewal is sent now.
  void renewing(TimePoint now) {
    sent_ = now;
    before_ = known_;
    renewed_ = false;
  }

  /// Its answer. The read is to be sent next.
  void renewed(Stamp stamp) {
    heard(stamp);
    renewed_ = before_ == stamp;
  }

  /// The answer to the read, which found the guard in place: the instant that is proven, or nothing.
  std::optional<TimePoint> confirmed(Stamp stamp) {
    heard(stamp);
    bool const proven = renewed_ && before_ == stamp;
    renewed_ = false;
    return proven ? std::optional(sent_) : std::nullopt;
  }

 private:
  std::optional<Stamp> known_;   ///< of the last answer
  std::optional<Stamp> before_;  ///< what was known when the renewal was sent
  TimePoint sent_{};
  bool renewed_ = false;
};

}  // namespace holdfast::detail::etcd

#pragma once

#include <chrono>
#include <functional>
#include <holdfast/client.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/lock.hpp>
#include <memory>
#include <optional>
#include <string>

namespace holdfast {

namespace detail {
class OnceState;
}

/// Something that is to be done once in the whole fleet, such as tonight's report: whoever gets the lock and finds no
/// record of it does it, and records that in the service, by a commit that is refused once the lock is lost.
///
///     auto report = client.once("nightly-report", "2026-11-18");
///     auto done = report.run({}, [](Hold& hold) { return make_report(hold.fence()); });   // Result<Once::Outcome>
///
/// At most one run per key is ever recorded as successful, and nobody begins after that. A run that fails is not
/// recorded, and the next one tries. A run that ends well but loses its lock before that could be recorded is run again
/// elsewhere: work whose every effect must happen once needs the fence, too.
///
/// Records stay for good, some hundred bytes per key, as `<root>/@once/<lock>/<key>` in the service.
///
/// Thread safety: distinct objects safe; shared objects safe.
class HOLDFAST_API Once {
 public:
  /// Who did it, and when.
  struct Record {
    std::string by;  ///< the label of its claim
    std::chrono::system_clock::time_point at;
    Fence fence;
  };
  struct Outcome {
    Record record;
    bool ours = false;  ///< it was this call that did it
  };

  /// The record, if it has been done. Errors: as Client::read, corrupt, invalid_argument (a bad name or key).
  /// Round trips: 1.
  [[nodiscard]] Result<std::optional<Record>> done() const;

  /// Does it, unless it has been done: takes the lock, calls `work`, and records that it was done if that reports
  /// success. Who comes later is told at once, without the lock.
  /// Errors: those of done() and of Lock::acquire; that of `work`, and then nothing is recorded; those of record().
  /// Round trips: 5 if it is ours, 1 if it was done before.
  [[nodiscard]] Result<Outcome> run(AcquireOptions options, std::function<Result<void>(Hold&)> const& work) const;

  /// Records that it was done, under a hold of its lock; for those who do the rest themselves. Tries for as long as the
  /// hold is valid. Errors: lost (then there is no record of ours), unknown_outcome, conflict (somebody else's record
  /// is there), denied, closed, invalid_argument (another lock's hold). Round trips: 1.
  Result<Record> record(Hold& hold) const;

 private:
  friend struct detail::Access;
  explicit Once(std::shared_ptr<detail::OnceState const> state);

  std::shared_ptr<detail::OnceState const> state_;
};

}  // namespace holdfast

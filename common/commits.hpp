#pragma once

#include <deque>
#include <functional>
#include <holdfast/commit.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/backend.hpp"

namespace holdfast::detail {

class Core;

/// The commits of one hold: carried out one at a time, in the order of the calls. When a caller's time is up before it
/// is known what became of his, that goes on being found out, for when he asks again.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class Commits : public std::enable_shared_from_this<Commits> {
 public:
  using Done = std::function<void(error_code)>;

  Commits(Core& core, std::string line, EntryRef self) : core_(core), line_(std::move(line)), self_(std::move(self)) {}

  /// True if this is the one whose caller was told `unknown_outcome`: `done` hears what became of it.
  bool ask_again(Commit const& what, Done const& done);
  void add(Commit what, Done done);

  /// The hold is over: what was not sent is not sent any more. `idle` follows once nothing is under way.
  void end(std::function<void()> idle);

  /// The client is closed: every caller is told now.
  void close();

 private:
  struct Caller {
    TimerId timer;
    Done done;
  };
  struct Asked {
    Commit what;
    std::map<std::uint64_t, Caller> callers;
    std::shared_ptr<Ticket> ticket = std::make_shared<Ticket>();
    std::optional<error_code> known;  ///< what became of it
  };

  void listen(std::shared_ptr<Asked> const& asked, Done done);
  void time_is_up(std::shared_ptr<Asked> const& asked, std::uint64_t caller);
  void send();
  void answered(Result<Fate> const& fate);
  void tell(std::shared_ptr<Asked> const& asked, error_code outcome);
  void doubt(std::shared_ptr<Asked> const& asked);
  void drop_unsent(error_code why);

  static constexpr std::size_t kMostDoubtful = 100;  ///< so many are remembered, the oldest is forgotten

  Core& core_;
  std::string const line_;
  EntryRef const self_;
  std::uint64_t last_caller_ = 0;
  std::deque<std::shared_ptr<Asked>> queue_;
  bool under_way_ = false;                                    ///< the first of them is with the backend
  std::map<std::uint64_t, std::shared_ptr<Asked>> doubtful_;  ///< by id: those whose caller was told `unknown_outcome`
  bool over_ = false;
  bool closed_ = false;
  std::function<void()> idle_;
};

}  // namespace holdfast::detail

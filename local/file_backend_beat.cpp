#include <algorithm>
#include <chrono>
#include <tuple>

#include "common/error.hpp"
#include "local/file_backend.hpp"

// The beat is for what no event tells: a directory, session or entry that somebody took away, and a bell or hang-up
// that did not get through. It looks at everything this client owns or waits for, line by line, a few at a time, so
// that however many there are, nobody else waits long for the monitor.

namespace holdfast::detail::file {

namespace {

constexpr std::size_t kLinesAtATime = 100;
constexpr std::size_t kEntriesAtATime = 4000;
constexpr auto kPause = std::chrono::milliseconds(2);

}  // namespace

void FileBackend::beat() {
  timer_ = host_.at(later(host_.now(), beat_), [this] { beat(); });
  if (!store_->intact() || !store_->sessions().has(session_, fifo_.get())) return lose();
  spare_.take(store_->lines());
  watch_.probe();
  if (!round_.empty()) return;  // so many that the last round still goes on
  for (auto const& [ticket, own] : own_) round_.push_back({own.line, own.ref, 0});
  add_waits();
  sort_round();
  go_round();
}

void FileBackend::add_waits() {
  waits_.each([this](WatchId id, Wait const& wait) {
    if (!wait.fired) round_.push_back({wait.line, wait.entry, id});
  });
}

/// Backwards, since it is taken from the end: by line, then by place, so that a line is opened once and read in one
/// direction.
void FileBackend::sort_round() {
  for (auto& each : round_) {
    auto const place = from_key(each.entry.key);
    each.offset = place ? place->offset : 0;
  }
  std::sort(round_.begin(), round_.end(),
            [](Concern const& a, Concern const& b) { return std::tie(a.line, a.offset) > std::tie(b.line, b.offset); });
}

/// Without the mutex, which is not worth it for what is nearly always in order; what seems wrong is confirmed under it.
void FileBackend::go_round() {
  std::string line;
  Result<bool> opened = false;
  std::vector<Concern> suspects;
  std::size_t lines = 0;
  for (std::size_t n = 0; n < kEntriesAtATime && !round_.empty(); ++n) {
    if (round_.back().line != line) {
      if (++lines > kLinesAtATime) break;
      line = round_.back().line;
      opened = open_line(line);
      if (!opened && out_of_descriptors(opened.error().value()) && spare_.give()) opened = open_line(line);
    }
    auto concern = std::move(round_.back());
    round_.pop_back();
    if (!opened || !in_order(*opened, concern)) suspects.push_back(std::move(concern));
  }
  line_.close();
  known_.clear();
  spare_.take(store_->lines());
  if (!round_.empty()) round_timer_ = host_.at(host_.now() + kPause, [this] { go_round(); });
  for (auto& each : suspects) confirm(std::move(each));
}

bool FileBackend::in_order(bool line_there, Concern const& concern) {
  if (!line_there) return false;
  auto const there = line_.has(concern.entry);
  if (!there || !*there) return false;
  if (concern.wait == 0) return true;
  auto const lives = alive(from_key(concern.entry.key)->session);
  return lives && *lives;
}

void FileBackend::confirm(Concern concern) {
  run<bool>(
      [this, concern](Result<bool> fine) {
        if (!fine || *fine) return;  // an error: whoever uses that line gets it; the next beat looks again
        if (concern.wait != 0) return fire({concern.wait}, false);
        if (own_.erase(concern.entry.number) != 0) host_.removed(concern.line, concern.entry);
      },
      [this, concern]() -> Result<bool> {
        auto const there = do_check(concern.line, concern.entry);
        if (!there || !*there || concern.wait == 0) return there;
        return alive(from_key(concern.entry.key)->session);
      });
}

/// Bells were lost: whatever is waited for may be gone.
void FileBackend::bells_lost() {
  auto before = std::exchange(round_, {});
  add_waits();
  sort_round();
  before.insert(before.end(), std::make_move_iterator(round_.begin()), std::make_move_iterator(round_.end()));
  round_ = std::move(before);  // these first
  host_.cancel(std::exchange(round_timer_, 0));
  go_round();
}

}  // namespace holdfast::detail::file

#include "tests/unit/file_fixture.hpp"

namespace holdfast::detail::file {
namespace {

class LineTest : public ::testing::Test {
 protected:
  struct Made {
    EntryRef ref;
    Ahead ahead;
  };

  bool open(Line::Mode mode = Line::Mode::existing) {
    return line_.open(lines_.get(), path_.path(), "a", mode).value();
  }

  Made join(Kind kind, Rule rule, std::uint64_t session = 0) {
    EXPECT_TRUE(open(Line::Mode::create));
    auto ahead = line_.ahead(line_.end(), rule, sessions_).value();
    Record record{};
    record.state = Record::kLive;
    record.kind = kind;
    record.blockers = rule.blockers;
    record.permits = rule.permits;
    record.waiting = ahead.grants(rule) ? 0 : 1;
    record.ticket = ++ticket_;
    record.session = session == 0 ? ticket_ : session;  // each its own client, unless told otherwise
    record.label_size = 2;
    std::memcpy(record.label, "me", 2);
    auto ref = line_.append(record).value();
    return {ref, ahead};
  }
  Made lock(std::uint64_t session = 0) { return join(Kind::lock, kExclusive, session); }
  Made reader() { return join(Kind::read, kReader); }
  Made writer() { return join(Kind::write, kExclusive); }
  Made permit(std::uint32_t n) { return join(Kind::permit, semaphore(n)); }

  Departure leave(EntryRef const& ref, bool was_first = false) {
    if (!open()) return {};
    return line_.remove(ref, was_first, sessions_).value();
  }
  std::optional<Ahead> look(EntryRef const& ref, Rule rule) {
    if (!open() || !line_.has(ref).value()) return std::nullopt;
    auto ahead = line_.ahead(from_key(ref.key)->offset, rule, sessions_).value();
    if (ahead.grants(rule)) {
      EXPECT_TRUE(line_.note_granted(ref));
    }
    return ahead;
  }
  static std::vector<std::uint64_t> tickets(Ahead const& ahead) {
    std::vector<std::uint64_t> result;
    for (auto const& ref : ahead.nearest) result.push_back(ref.number);
    return result;
  }
  std::string file() const { return path_ / "lines/a"; }

  using Sessions = std::vector<std::uint64_t>;

  TemporaryDirectory path_;
  FakeSessions sessions_;
  Line line_;
  std::uint64_t ticket_ = 0;
  Fd lines_{[this] {
    ::mkdir((path_ / "lines").c_str(), 0700);
    return ::open((path_ / "lines").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }()};
};

TEST_F(LineTest, ExclusiveWaitsForTheOneInFrontAndIsWokenByIt) {
  auto const a = lock();
  auto const b = lock();
  auto const c = lock();
  EXPECT_TRUE(a.ahead.nearest.empty());
  EXPECT_EQ(tickets(b.ahead), Sessions{1});
  EXPECT_FALSE(b.ahead.more);
  EXPECT_EQ(tickets(c.ahead), Sessions{2});
  EXPECT_TRUE(c.ahead.more);
  auto const first = leave(a.ref, true);
  EXPECT_EQ(first.wake, Sessions{2});
  EXPECT_TRUE(first.nobody_ahead);
  EXPECT_TRUE(leave(b.ref, true).nobody_ahead);
  EXPECT_TRUE(leave(c.ref, true).wake.empty());
  EXPECT_FALSE(fs::exists(file())) << "the last one takes the file along";
}

TEST_F(LineTest, AWaiterThatGivesUpWakesTheOneBehindWhoThenWaitsForTheHolder) {
  auto const a = lock();
  auto const b = lock();
  auto const c = lock();
  auto const departure = leave(b.ref);
  EXPECT_EQ(departure.wake, Sessions{3});
  EXPECT_FALSE(departure.nobody_ahead);
  EXPECT_EQ(tickets(look(c.ref, kExclusive).value()), Sessions{1});
  EXPECT_EQ(leave(a.ref).wake, Sessions{3});
}

TEST_F(LineTest, ReadersWaitForWritersOnly) {
  auto const r1 = reader();
  auto const r2 = reader();
  auto const w = writer();
  auto const r3 = reader();
  auto const r4 = reader();
  EXPECT_TRUE(r1.ahead.nearest.empty());
  EXPECT_TRUE(r2.ahead.nearest.empty());
  EXPECT_EQ(tickets(w.ahead), Sessions{2});
  EXPECT_EQ(tickets(r3.ahead), Sessions{3});
  EXPECT_EQ(tickets(r4.ahead), Sessions{3});
  EXPECT_TRUE(leave(r1.ref).wake.empty()) << "the writer waits for the nearest reader";
  EXPECT_EQ(leave(r2.ref).wake, Sessions{3});
  EXPECT_EQ(leave(w.ref, true).wake, (Sessions{4, 5})) << "all readers at once";
}

TEST_F(LineTest, AReaderFindsTheWriterFarAheadWithoutReadingAllReaders) {
  auto const w = writer();
  for (int i = 0; i < 5000; ++i) reader();
  auto const last = reader();
  EXPECT_EQ(tickets(last.ahead), Sessions{1});
  EXPECT_EQ(leave(w.ref, true).wake.size(), 5001U);
  EXPECT_TRUE(reader().ahead.nearest.empty());
}

TEST_F(LineTest, ASemaphoreWakesOnlyThoseWhoHaveItInTheirWindow) {
  std::vector<Made> all;
  for (int i = 0; i < 8; ++i) all.push_back(permit(3));
  EXPECT_TRUE(all[2].ahead.grants(semaphore(3)));
  EXPECT_EQ(tickets(all[3].ahead), (Sessions{3, 2, 1}));
  EXPECT_EQ(tickets(all[4].ahead), (Sessions{4, 3, 2}));
  EXPECT_TRUE(all[4].ahead.more);
  EXPECT_EQ(leave(all[1].ref).wake, (Sessions{4, 5})) << "holders are not rung, nor those further behind";
}

TEST_F(LineTest, ADeadOwnersEntryCountsNoMore) {
  auto const a = lock();
  lock();
  sessions_.dead = {2};
  auto const c = lock();
  EXPECT_EQ(tickets(c.ahead), Sessions{1});
  sessions_.dead.clear();
  EXPECT_EQ(leave(a.ref).wake, Sessions{3}) << "it was marked, so the leaver does not count it either";
}

TEST_F(LineTest, ALineOfTheDeadStartsOver) {
  for (int i = 0; i < 100; ++i) lock();
  for (std::uint64_t s = 1; s <= 100; ++s) sessions_.dead.insert(s);
  auto const next = lock();
  EXPECT_TRUE(next.ahead.nearest.empty());
  EXPECT_EQ(fs::file_size(file()), 2 * kRecordSize);
  leave(next.ref, true);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(LineTest, TheFileGoesAlsoIfTheFirstOneDied) {
  lock();
  auto const b = lock();
  sessions_.dead = {1};
  EXPECT_TRUE(look(b.ref, kExclusive)->nearest.empty());
  auto const c = lock();
  auto const departure = leave(b.ref, true);
  EXPECT_TRUE(departure.nobody_ahead);
  EXPECT_EQ(departure.wake, Sessions{3});
  leave(c.ref, true);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(LineTest, CancelledWaitersAtTheEndAreCutOff) {
  auto const holder = lock();
  std::vector<EntryRef> waiters;
  for (int i = 0; i < 1000; ++i) waiters.push_back(lock().ref);
  for (auto const& ref : waiters) leave(ref);
  EXPECT_EQ(fs::file_size(file()), 2 * kRecordSize);
  auto const next = lock();
  EXPECT_EQ(tickets(next.ahead), Sessions{1});
  EXPECT_FALSE(next.ahead.more);
  EXPECT_EQ(leave(holder.ref, true).wake, Sessions{next.ref.number});
}

TEST_F(LineTest, ALineThatIsNeverEmptyDoesNotGrowOnDisk) {
  std::deque<EntryRef> line;
  for (int i = 0; i < 3; ++i) line.push_back(lock().ref);
  std::uintmax_t blocks = 0;
  for (int i = 0; i < 3000; ++i) {
    line.push_back(lock().ref);
    auto const departure = leave(line.front(), true);
    line.pop_front();
    ASSERT_EQ(departure.wake, Sessions{line.front().number});
    ASSERT_TRUE(departure.nobody_ahead);
    struct stat status {};
    ASSERT_EQ(::stat(file().c_str(), &status), 0);
    blocks = std::max(blocks, static_cast<std::uintmax_t>(status.st_blocks));
  }
  EXPECT_GT(fs::file_size(file()), 3000 * kRecordSize);
  EXPECT_LT(blocks * 512, 256 * 1024U);
  ASSERT_TRUE(open());
  EXPECT_EQ(line_.list(sessions_).value().size(), 3U);
}

TEST_F(LineTest, AKeyBeyondAllMeasureIsNoEntry) {
  auto const a = lock();
  ASSERT_TRUE(open());
  EXPECT_FALSE(line_.has({"fffffffffffffe00-1", a.ref.number}).value());
  EXPECT_FALSE(line_.has({"7ffffffffffffe00-1", a.ref.number}).value());
}

TEST_F(LineTest, WhatSomebodyDidToTheFileIsAnErrorOrAnEmptyLine) {
  auto const a = lock();
  auto const b = lock();
  fs::resize_file(file(), 2 * kRecordSize + 100);  // in the middle of b
  EXPECT_FALSE(look(b.ref, kExclusive));
  EXPECT_TRUE(look(a.ref, kExclusive));
  auto const c = lock();
  EXPECT_EQ(tickets(c.ahead), Sessions{1});
  EXPECT_FALSE(look(b.ref, kExclusive)) << "same place, another entry";
  for (auto const size : {kRecordSize, std::uint64_t{10}, std::uint64_t{0}}) {
    lock();
    fs::resize_file(file(), size);
    EXPECT_FALSE(look(a.ref, kExclusive));
    EXPECT_TRUE(leave(a.ref, true).wake.empty());
    EXPECT_TRUE(lock().ahead.nearest.empty());
  }
  char const rubbish[kRecordSize] = {1, 2, 3};
  auto const d = lock();
  write_file(file(), rubbish, sizeof rubbish, from_key(d.ref.key)->offset);
  ASSERT_TRUE(open());
  EXPECT_EQ(line_.ahead(line_.end(), kExclusive, sessions_).error(), errc::corrupt);
  write_file(file(), rubbish, sizeof rubbish, 0);
  EXPECT_EQ(line_.open(lines_.get(), path_.path(), "a", Line::Mode::existing).error(), errc::corrupt);
}

TEST_F(LineTest, ATruncatedLineWithItsHeadFarInsideStartsOver) {
  std::deque<EntryRef> line;
  for (int i = 0; i < 40; ++i) line.push_back(lock().ref);
  for (int i = 0; i < 30; ++i) {
    leave(line.front(), true);
    line.pop_front();
  }
  fs::resize_file(file(), 5 * kRecordSize);
  auto const next = lock();
  EXPECT_TRUE(next.ahead.nearest.empty());
  EXPECT_TRUE(look(next.ref, kExclusive)) << "not hidden before the old head";
  EXPECT_EQ(tickets(lock().ahead), Sessions{next.ref.number});
}

TEST_F(LineTest, KeysAreReadBackAndRubbishIsNot) {
  auto const place = from_key(to_key({1024, 77})).value();
  EXPECT_EQ(place.offset, 1024U);
  EXPECT_EQ(place.session, 77U);
  for (auto const* text : {"", "-", "400", "400-", "400-7x", "1-7", "0-7", "x-7"}) EXPECT_FALSE(from_key(text)) << text;
}

/// The storage against the rule itself: random joins, departures, deaths and looks. Each waiter is told when one of
/// those it waits for leaves (a bell) or dies (a hang-up), looks some time later, and must never be forgotten.
class LineModel : public LineTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  struct Entry {
    EntryRef ref;
    Kind kind;
    Rule rule;
    std::set<std::uint64_t> waits_for;  // as last seen; empty: granted
    bool told = false;
  };

  std::vector<std::uint64_t> truly_ahead(std::uint64_t ticket, Rule rule) const {
    std::vector<std::uint64_t> result;
    for (auto it = model_.rbegin(); it != model_.rend() && result.size() < rule.permits; ++it)
      if (it->first < ticket && rule.blocked_by(it->second.kind)) result.push_back(it->first);
    return result;
  }

  void see(Entry& entry, Ahead const& ahead) {
    auto const seen = tickets(ahead);
    EXPECT_EQ(seen, truly_ahead(entry.ref.number, entry.rule));
    entry.told = false;
    entry.waits_for.clear();
    if (!ahead.grants(entry.rule)) entry.waits_for = {seen.begin(), seen.end()};
  }

  void depart(std::uint64_t ticket) {
    auto const entry = model_.at(ticket);
    bool const first = model_.begin()->first == ticket;
    std::set<std::uint64_t> could;
    for (auto const& [other, each] : model_) {
      auto const ahead = truly_ahead(other, each.rule);
      if (std::find(ahead.begin(), ahead.end(), ticket) != ahead.end()) could.insert(other);
    }
    auto const departure = leave(entry.ref, first && entry.rule.exclusive());
    model_.erase(ticket);
    // nobody_ahead may be left out, never wrongly given.
    EXPECT_TRUE(first || unmarked_ || !departure.nobody_ahead);
    for (auto const woken : departure.wake) {
      if (!model_.contains(woken)) continue;  // dead, which the record does not say yet
      EXPECT_TRUE(unmarked_ || could.contains(woken)) << "woken for nothing";
      model_.at(woken).told = true;
    }
    for (auto const& [other, each] : model_)
      EXPECT_TRUE(each.told || !each.waits_for.contains(ticket)) << other << " was forgotten by " << ticket;
  }

  void die(std::uint64_t ticket) {
    sessions_.dead.insert(ticket);
    model_.erase(ticket);
    unmarked_ = true;
    for (auto& [other, each] : model_)
      if (each.waits_for.contains(ticket)) each.told = true;
  }

  std::map<std::uint64_t, Entry> model_;
  bool unmarked_ = false;  // there may be dead ones that no record tells of
};

TEST_P(LineModel, NobodyIsForgotten) {
  std::mt19937 random(GetParam());
  auto const chance = [&](unsigned percent) { return random() % 100 < percent; };
  unsigned const style = GetParam() % 4;
  bool const deaths = GetParam() % 3 != 0;
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    std::vector<std::uint64_t> all;
    std::vector<std::uint64_t> told;
    for (auto const& [ticket, entry] : model_) {
      all.push_back(ticket);
      if (entry.told) told.push_back(ticket);
    }
    if (all.size() < 2 || (all.size() < 30 && chance(35))) {
      Kind kind = Kind::lock;
      Rule rule = kExclusive;
      if (style == 1 || (style == 3 && chance(50))) {
        kind = chance(60) ? Kind::read : Kind::write;
        rule = kind == Kind::read ? kReader : kExclusive;
      } else if (style == 2 || (style == 3 && chance(50))) {
        kind = Kind::permit;
        rule = semaphore(style == 3 ? 1 + static_cast<std::uint32_t>(random() % 4) : 3);
      }
      auto const made = join(kind, rule);
      auto& entry = model_[made.ref.number];
      entry = {made.ref, kind, rule, {}, false};
      see(entry, made.ahead);
    } else if (!told.empty() && chance(50)) {
      auto& entry = model_.at(told[random() % told.size()]);
      auto const ahead = look(entry.ref, entry.rule);
      ASSERT_TRUE(ahead);
      see(entry, *ahead);
    } else if (deaths && chance(15)) {
      die(all[random() % all.size()]);
    } else {
      depart(chance(60) ? all.front() : all[random() % all.size()]);
    }
  }
  // At rest, who was not told waits for all that are truly ahead of it.
  for (auto& [ticket, entry] : model_) {
    if (!entry.told) continue;
    auto const ahead = look(entry.ref, entry.rule);
    ASSERT_TRUE(ahead);
    see(entry, *ahead);
  }
  for (auto const& [ticket, entry] : model_) {
    auto const ahead = truly_ahead(ticket, entry.rule);
    bool const granted = ahead.size() < entry.rule.permits;
    EXPECT_EQ(granted, entry.waits_for.empty()) << ticket;
  }
  while (!model_.empty()) depart(model_.begin()->first);
  EXPECT_TRUE(unmarked_ || !fs::exists(file()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LineModel, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace holdfast::detail::file

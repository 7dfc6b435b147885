#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <thread>

#include "tests/file/process.hpp"

// Several processes take and give back a few locks as fast as they can, waiting, trying and giving up, and are killed
// at random instants. What they guard is a piece of shared memory that knows who is in it.

namespace holdfast::test {
namespace {

constexpr std::size_t kLocks = 3;
constexpr std::size_t kProcesses = 5;
constexpr std::size_t kKills = 300;

struct Guarded {
  std::atomic<std::uint32_t> owner;  ///< the number of the process that is in; 0: none
  std::atomic<std::uint64_t> fence;  ///< the highest seen
  std::atomic<std::uint64_t> grants;
};

struct Shared {
  Guarded guarded[kLocks];
  std::atomic<bool> enough;
  std::atomic<bool> doomed[kKills + kProcesses + 2];  ///< by number: killed, or about to be
  std::atomic<std::uint32_t> overlaps;
  std::atomic<std::uint32_t> stale;
  std::atomic<std::uint32_t> errors;
};

Shared* map(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Shared)) != 0) std::abort();
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<Shared*>(memory);
}

/// Whoever waits for no more than two milliseconds may not even have got its turn to stand in line.
void check(Shared& shared, error_code const& error, bool hurried) {
  if (error == errc::busy || error == errc::timed_out || (hurried && error == errc::unavailable)) return;
  ++shared.errors;
  std::fprintf(stderr, "%s\n", error.message().c_str());
}

void enter(Shared& shared, Guarded& place, Hold hold, std::uint32_t me, std::mt19937& random) {
  auto const before = place.owner.exchange(me);
  if (before != 0 && !shared.doomed[before]) ++shared.overlaps;
  if (place.fence.exchange(hold.fence().token()) >= hold.fence().token()) ++shared.stale;
  ++place.grants;
  if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  auto mine = me;
  if (!hold.valid() || !place.owner.compare_exchange_strong(mine, 0)) ++shared.overlaps;
  if (random() % 2 != 0) return;
  if (auto const released = hold.release(); !released) check(shared, released.error(), false);
}

void contend(Shared& shared, Client const& client, std::uint32_t me, std::mt19937 random) {
  while (!shared.enough) {
    auto const index = random() % kLocks;
    auto lock = client.lock("lock" + std::to_string(index));
    auto const how = random() % 4;
    auto hold = how < 2    ? lock.acquire()
                : how == 2 ? lock.acquire_for(std::chrono::microseconds(random() % 2000))
                           : lock.try_acquire();
    if (hold)
      enter(shared, shared.guarded[index], std::move(*hold), me, random);
    else
      check(shared, hold.error(), how == 2);
  }
}

}  // namespace

/// storm URL MEMORY NUMBER SEED
int storm(std::vector<std::string> const& arguments) {
  auto& shared = *map(arguments.at(2));
  auto const me = static_cast<std::uint32_t>(std::stoul(arguments.at(3)));
  auto const seed = static_cast<std::uint32_t>(std::stoul(arguments.at(4)));
  auto const client = Client::connect(arguments.at(1));
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message().c_str());
    return 1;
  }
  std::thread other([&] { contend(shared, *client, me, std::mt19937(seed + 1)); });
  contend(shared, *client, me, std::mt19937(seed));
  other.join();
  return 0;
}

namespace {

TEST(Storm, KilledAtRandomInstantsNobodyOverlapsAndNobodyIsForgotten) {
  Directory const directory;
  auto const memory = directory / "memory";
  auto& shared = *map(memory);
  auto const* const given = std::getenv("HOLDFAST_SEED");
  auto const seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::uint32_t number = 0;
  auto const start = [&] {
    ++number;
    return std::pair(
        Process({"storm", directory.url("ttl=600s"), memory, std::to_string(number), std::to_string(random())}),
        number);
  };
  std::vector<std::pair<Process, std::uint32_t>> processes;
  for (std::size_t i = 0; i < kProcesses; ++i) processes.push_back(start());
  for (std::size_t kill = 0; kill < kKills; ++kill) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    auto& victim = processes[random() % processes.size()];
    shared.doomed[victim.second] = true;
    victim.first.kill();
    victim = start();
  }
  shared.enough = true;
  for (auto& [process, each] : processes) EXPECT_EQ(process.wait(30s), 0) << "process " << each << " waits for ever";
  EXPECT_EQ(shared.overlaps, 0U);
  EXPECT_EQ(shared.stale, 0U);
  EXPECT_EQ(shared.errors, 0U);
  std::uint64_t grants = 0;
  for (auto const& each : shared.guarded) {
    EXPECT_GT(each.grants, 100U);
    grants += each.grants;
  }
  std::cout << kKills << " kills, " << grants << " grants\n";
  {
    auto const client = Client::connect(directory.url()).value();
    EXPECT_TRUE(client.names().value().empty());
    for (std::size_t i = 0; i < kLocks; ++i) {
      auto const hold = client.lock("lock" + std::to_string(i)).try_acquire();
      ASSERT_TRUE(hold) << "nobody is left in it";
      EXPECT_GT(hold->fence().token(), shared.guarded[i].fence.load());
    }
    EXPECT_EQ(files_in(directory.locks() + "/sessions"), 1U);
  }
  EXPECT_EQ(files_in(directory.locks() + "/lines"), 0U);
  EXPECT_EQ(files_in(directory.locks() + "/sessions"), 0U);
  EXPECT_EQ(files_in(directory.locks()), 3U) << "the counter and the two directories";
  ::munmap(&shared, sizeof shared);
}

}  // namespace
}  // namespace holdfast::test

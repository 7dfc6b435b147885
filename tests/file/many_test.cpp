#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/file/process.hpp"

// Ten thousand waiters, and ten thousand holds, in one process that may open 1,024 files. In a process of its own, for
// the limit.

namespace holdfast::test {
namespace {

constexpr int kMany = 10'000;

std::size_t threads() { return files_in("/proc/self/task"); }
std::size_t descriptors() { return files_in("/proc/self/fd"); }

/// In a moment at the latest: a beat opens and closes one, too.
bool same(char const* what, std::size_t before, std::size_t (*count)()) {
  if (eventually([&] { return count() == before; })) return true;
  std::fprintf(stderr, "%zu %s instead of %zu\n", count(), what, before);
  return false;
}

int waiters(Client const& client) {
  auto lock = client.lock("x");
  auto hold = lock.acquire().value();
  auto const threads_before = threads();
  auto const descriptors_before = descriptors();
  std::vector<std::pair<int, std::uint64_t>> order;  // only the notification thread touches it
  std::promise<void> all;
  for (int i = 0; i < kMany; ++i)
    lock.async_acquire({}, [&, i](error_code ec, Hold granted) {
      order.emplace_back(i, ec ? 0 : granted.fence().token());
      if (order.size() == kMany) all.set_value();
    });
  if (!same("threads", threads_before, threads)) return 3;
  if (!same("descriptors", descriptors_before, descriptors)) return 4;
  if (client.inspect("x").value().size() != kMany + 1) return 5;
  auto last = hold.fence().token();
  if (!hold.release()) return 6;
  if (all.get_future().wait_for(60s) != std::future_status::ready) return 7;
  for (int i = 0; i < kMany; ++i) {
    auto const& [who, fence] = order[static_cast<std::size_t>(i)];
    if (who != i || fence <= last) return 8;
    last = fence;
  }
  if (!same("threads", threads_before, threads)) return 9;
  if (!same("descriptors", descriptors_before, descriptors)) return 10;
  return 0;
}

int holds(Client const& client) {
  auto const descriptors_before = descriptors();
  std::vector<Hold> all;
  for (int i = 0; i < kMany; ++i) {
    auto hold = client.lock("lock" + std::to_string(i)).try_acquire();
    if (!hold) return 11;
    all.push_back(std::move(*hold));
  }
  if (!same("descriptors", descriptors_before, descriptors)) return 12;
  if (client.names().value().size() != kMany) return 13;
  // Several beats (100 ms each here) look at all of them; none is lost by that.
  std::this_thread::sleep_for(500ms);
  for (auto const& hold : all)
    if (!hold.valid() || hold.lost().stop_requested()) return 14;
  all.clear();
  return client.names().value().empty() ? 0 : 15;
}

}  // namespace

/// many waiters|holds URL
int many(std::vector<std::string> const& arguments) {
  rlimit const limit{1024, 1024};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  auto const client = Client::connect(arguments.at(2)).value();
  return arguments.at(1) == "waiters" ? waiters(client) : holds(client);
}

namespace {

TEST(Many, TenThousandWaitersNeedNoThreadAndNoDescriptorEach) {
  Directory const directory;
  Process process({"many", "waiters", directory.url()});
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(files_in(directory.locks() + "/lines"), 0U);
}

TEST(Many, TheSameInMemory) {
  Process process({"many", "waiters", "memory:many"});
  EXPECT_EQ(process.wait(), 0);
}

TEST(Many, TenThousandHoldsNeedNoDescriptorEach) {
  Directory const directory;
  Process process({"many", "holds", directory.url("ttl=300ms")});
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(files_in(directory.locks() + "/lines"), 0U);
}

TEST(Many, AProcessKilledWithTenThousandInLineHandsOverAtOnce) {
  Directory const directory;
  auto const client = Client::connect(directory.url()).value();
  auto hold = client.lock("x").acquire().value();
  auto crowd = client_process(directory.url());
  for (int i = 0; i < kMany; ++i) crowd.say("wait x");
  ASSERT_TRUE(eventually([&] { return client.inspect("x").value().size() == kMany + 1; }, 60s));
  auto last = client_process(directory.url());
  last.say("wait x");
  ASSERT_TRUE(eventually([&] { return client.inspect("x").value().size() == kMany + 2; }));
  auto const killed = crowd.kill();
  ASSERT_TRUE(hold.release());
  EXPECT_LT(granted(last.hear()).at - killed, 5'000'000'000);
  ASSERT_EQ(last.ask("release x"), "fine");
  EXPECT_EQ(files_in(directory.locks() + "/lines"), 0U);
}

}  // namespace
}  // namespace holdfast::test

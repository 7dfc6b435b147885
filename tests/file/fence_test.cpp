#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/file/process.hpp"

// The fence never goes back, whatever happens to processes and files; where that cannot be known, there is no fence at
// all.

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

Fence next_fence(Directory const& directory) {
  auto const client = Client::connect(directory.url()).value();
  return client.lock("x").acquire().value().fence();
}

TEST(FileFence, GoesOnWhenEverybodyIsGone) {
  Directory const directory;
  Fence last;
  for (int i = 0; i < 5; ++i) {
    auto const fence = next_fence(directory);
    EXPECT_GT(fence, last);
    auto process = client_process(directory.url());
    auto const held = process.ask("acquire x");
    ASSERT_EQ(held.substr(0, 5), "held ");
    last = Fence(0, std::stoull(held.substr(5)));
    EXPECT_GT(last, fence);
    process.kill();
  }
}

TEST(FileFence, GoesOnWhenItsLineIsDeleted) {
  Directory const directory;
  auto const client = Client::connect(directory.url("ttl=300ms")).value();
  auto const hold = client.lock("x").acquire().value();
  auto const lost = hold.lost();
  fs::remove(directory.locks() + "/lines/x");
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); })) << "whoever held it is told";
  EXPECT_GT(client.lock("x").acquire_for(5s).value().fence(), hold.fence());
}

TEST(FileFence, GoesOnWhenTheWholeDirectoryIsMadeAnew) {
  Directory const directory;
  Fence last;
  for (int i = 0; i < 5; ++i) {
    auto const fence = next_fence(directory);
    EXPECT_GT(fence, last);
    last = fence;
    fs::remove_all(directory.locks());
  }
}

/// Does something to the counter of a directory that was used, and expects everybody to be refused until it is mended.
void spoil(std::function<void(std::string const&)> const& how) {
  Directory const directory;
  auto const before = next_fence(directory);
  auto const counter = directory.locks() + "/counter";
  fs::copy_file(counter, directory / "good");
  how(counter);
  auto const refused = Client::connect(directory.url());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::corrupt) << refused.error().message();
  EXPECT_TRUE(contains(refused.error().message(), counter)) << refused.error().message();
  fs::copy_file(directory / "good", counter, fs::copy_options::overwrite_existing);
  EXPECT_GT(next_fence(directory), before);
}

TEST(FileFence, ADamagedCounterIsNeverARestart) {
  spoil([](std::string const& counter) { fs::remove(counter); });
  spoil([](std::string const& counter) { fs::resize_file(counter, 0); });
  spoil([](std::string const& counter) { fs::resize_file(counter, 40); });
  spoil([](std::string const& counter) {
    fs::resize_file(counter, 0);
    fs::resize_file(counter, 88);  // all zero
  });
  spoil([](std::string const& counter) { std::ofstream(counter) << std::string(88, 'x'); });
}

TEST(FileFence, ACounterDamagedUnderARunningClientIsCorruptNotWrong) {
  Directory const directory;
  auto const client = Client::connect(directory.url("ttl=300ms")).value();
  auto const held = client.lock("held").acquire().value();
  auto const counter = directory.locks() + "/counter";
  fs::copy_file(counter, directory / "good");
  fs::resize_file(counter, 10);
  auto const refused = client.lock("x").acquire_for(5s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::corrupt);
  EXPECT_TRUE(contains(refused.error().message(), counter)) << refused.error().message();
  EXPECT_TRUE(held.valid()) << "what was held stays held";
  fs::copy_file(directory / "good", counter, fs::copy_options::overwrite_existing);
  EXPECT_GT(client.lock("x").acquire_for(5s).value().fence(), held.fence());
}

TEST(FileFence, ACounterDeletedUnderARunningClientIsCorruptNotWrong) {
  Directory const directory;
  auto const client = Client::connect(directory.url("ttl=300ms")).value();
  auto const held = client.lock("held").acquire().value();
  fs::remove(directory.locks() + "/counter");
  EXPECT_TRUE(eventually([&] { return held.lost().stop_requested(); }));
  EXPECT_TRUE(eventually([&] { return client.lock("x").acquire_for(100ms).error() == errc::corrupt; }));
}

TEST(FileFence, AnUnreadableCounterIsDenied) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root: other users are NOT tested";
  Directory const directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(directory.locks().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory.locks().c_str(), 0777), 0);
  (void)next_fence(directory);
  ASSERT_EQ(::chmod((directory.locks() + "/counter").c_str(), 0600), 0);
  Process other({"client", directory.url(), "65534"});
  EXPECT_EQ(other.hear(), "error access denied: " + directory.locks() + "/counter: Permission denied");
}

}  // namespace
}  // namespace holdfast::test

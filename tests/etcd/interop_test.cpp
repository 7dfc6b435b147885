#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/etcd/cluster.hpp"

// Others who stand in the same line: `etcdctl lock`, which is Go's concurrency.Mutex.

namespace holdfast::test {
namespace {

/// A file on which whoever holds the lock leaves a mark when it comes and when it goes.
class Diary {
 public:
  Diary() : path_("/dev/shm/holdfast-diary-" + std::to_string(::getpid())) { std::ofstream(path_).close(); }
  ~Diary() { std::filesystem::remove(path_); }

  void write(std::string const& mark) const { std::ofstream(path_, std::ios::app) << mark << std::endl; }
  std::string const& path() const { return path_; }

  /// How often each came; every coming is followed by the same one's going, or they overlapped.
  std::map<std::string, int> read() const {
    std::ifstream in(path_);
    std::map<std::string, int> visits;
    std::string come, go;
    while (in >> come >> go) {
      EXPECT_EQ(come.substr(1), go.substr(1)) << "somebody came in between";
      EXPECT_EQ(come.front(), '+');
      EXPECT_EQ(go.front(), '-');
      ++visits[come.substr(1)];
    }
    return visits;
  }

 private:
  std::string const path_;
};

TEST_F(Etcd, EtcdctlLockAndOursExcludeEachOther) {
  constexpr int kRounds = 40;
  Diary const diary;
  std::string const lock = root_ + "/x";
  auto const theirs = [&](std::string const& who) {
    output_of("ETCDCTL_API=3 sh -c 'i=0; while [ $i -lt " + std::to_string(kRounds) +
              " ]; do etcdctl --endpoints=" + order("address all") + " lock " + lock + " -- sh -c \"echo +" + who +
              " >> " + diary.path() + "; echo -" + who + " >> " + diary.path() + "\" || exit 1; i=$((i+1)); done'");
  };
  auto const ours = [&](std::string const& who) {
    auto client = connect();
    for (int i = 0; i < 3 * kRounds; ++i) {
      auto const hold = client.lock("x").acquire().value();
      diary.write("+" + who);
      diary.write("-" + who);
    }
  };
  {
    std::jthread const a([&] { theirs("a"); }), b([&] { theirs("b"); }), c([&] { ours("c"); }), d([&] { ours("d"); });
  }
  auto const visits = diary.read();
  EXPECT_EQ(visits,
            (std::map<std::string, int>{{"a", kRounds}, {"b", kRounds}, {"c", 3 * kRounds}, {"d", 3 * kRounds}}));
}

TEST_F(Etcd, WeStandInLineBehindAnEtcdctlLockAndItBehindUs) {
  auto client = connect();
  auto first = client.lock("x").acquire().value();
  Diary const diary;
  std::jthread const peer([&] {
    etcdctl("lock " + root_ + "/x -- sh -c 'echo +p >> " + diary.path() + "; echo -p >> " + diary.path() + "'");
  });
  ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 2; }));
  auto line = client.inspect("x").value();
  EXPECT_TRUE(line[0].holds);
  EXPECT_EQ(line[0].fence, first.fence());
  EXPECT_TRUE(diary.read().empty());
  EXPECT_TRUE(first.release());
  auto const second = client.lock("x").acquire_for(10s).value();
  EXPECT_EQ(diary.read().size(), 1u) << "it was there before us";
  EXPECT_GT(second.fence(), line[1].fence) << "the create revision of the peer's key compares with our fence";
}

}  // namespace
}  // namespace holdfast::test

#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace holdfast::test {

/// The cluster that this test runs beside (tests/cluster): its addresses, and the power to harm it. Whatever was done
/// to it is put right when this goes.
class Cluster {
 public:
  Cluster() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (char const* const path = std::getenv("HOLDFAST_TEST_CONTROL"))
      std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ADD_FAILURE() << "run this beside a cluster: tests/cluster/cluster run SERVICE -- PROGRAM";
      std::exit(1);
    }
  }
  Cluster(Cluster const&) = delete;
  ~Cluster() {
    for (auto const* command : {"resume all", "heal all", "start all"}) tell(command);
    ::close(fd_);
  }

  static std::string url() { return std::getenv("HOLDFAST_TEST_URL"); }

  std::string ask(std::string const& command) {
    std::string const line = command + "\n", none;
    if (::write(fd_, line.data(), line.size()) < 0) return none;
    std::string answer;
    for (char c = 0; ::read(fd_, &c, 1) == 1 && c != '\n';) answer += c;
    return answer;
  }
  void tell(std::string const& command) { EXPECT_EQ(ask(command), "ok") << command; }
  void tell(std::string const& verb, int member) { tell(verb + " " + std::to_string(member)); }

  int leader() { return std::stoi(ask("leader")); }
  /// Some member that does not lead.
  int follower() { return leader() == 1 ? 2 : 1; }
  std::string address(int member) { return ask("address " + std::to_string(member)); }

 private:
  int fd_ = -1;
};

}  // namespace holdfast::test

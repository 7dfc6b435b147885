#include "tests/etcd/cluster.hpp"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

namespace holdfast::test {

std::string order(std::string const& command) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string const path = std::getenv("HOLDFAST_TEST_CONTROL");
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  std::string const line = command + "\n";
  if (::connect(fd, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0 &&
      ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
    char c = 0;
    while (::read(fd, &c, 1) == 1 && c != '\n') answer += c;
  }
  ::close(fd);
  EXPECT_FALSE(answer.empty() || answer.starts_with("error")) << command << ": " << answer;
  return answer;
}

std::string output_of(std::string const& command) {
  std::string output;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  std::array<char, 4096> buffer{};
  while (std::size_t const n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command << ": " << output;
  return output;
}

std::vector<std::string> members() {
  std::vector<std::string> all;
  std::istringstream list(order("address all"));
  for (std::string each; std::getline(list, each, ',');) all.push_back(each);
  return all;
}

std::string etcdctl(std::string const& arguments) {
  return output_of("ETCDCTL_API=3 etcdctl --endpoints=" + order("address all") + " " + arguments);
}

double counted(std::vector<std::string> const& words) {
  double sum = 0;
  for (auto const& member : members()) {
    boost::asio::io_context context;
    boost::asio::ip::tcp::socket socket(context);
    auto const port = static_cast<std::uint16_t>(std::stoi(member.substr(member.find(':') + 1)));
    socket.connect({boost::asio::ip::address_v4::loopback(), port});
    boost::asio::write(socket, boost::asio::buffer(std::string("GET /metrics HTTP/1.0\r\n\r\n")));
    std::string text;
    boost::system::error_code ec;
    boost::asio::read(socket, boost::asio::dynamic_buffer(text), ec);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      bool all = !line.starts_with('#');
      for (auto const& word : words) all = all && line.find(word) != std::string::npos;
      if (all) sum += std::stod(line.substr(line.rfind(' ')));
    }
  }
  return sum;
}

std::map<int, int> connections() {
  std::map<int, int> found;
  std::set<std::string> inodes;
  DIR* const fds = ::opendir("/proc/self/fd");
  while (auto const* const each = ::readdir(fds)) {
    std::array<char, 64> target{};
    if (::readlinkat(::dirfd(fds), each->d_name, target.data(), target.size() - 1) > 0)
      if (std::string const link = target.data(); link.starts_with("socket:["))
        inodes.insert(link.substr(8, link.size() - 9));
  }
  ::closedir(fds);
  auto const all = members();
  for (auto const* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(file);
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skip, inode;
      words >> number >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "01" || !inodes.contains(inode)) continue;
      auto const port = std::to_string(std::stoi(remote.substr(remote.find(':') + 1), nullptr, 16));
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].ends_with(":" + port))
          found[std::stoi(local.substr(local.find(':') + 1), nullptr, 16)] = static_cast<int>(i) + 1;
    }
  }
  return found;
}

int pinned(std::map<int, int> const& before) {
  for (auto const& [port, member] : connections())
    if (!before.contains(port)) return member;
  return 0;
}

Etcd::Etcd() {
  static int count = 0;
  root_ = "/test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

Etcd::~Etcd() {
  order("heal all");
  order("resume all");
  order("start all");
}

std::string Etcd::url(std::string const& query) const {
  return cluster_url() + root_ + (query.empty() ? "" : "?" + query);
}

std::vector<std::string> Etcd::keys(std::string const& name) const {
  std::vector<std::string> all;
  std::istringstream lines(etcdctl("get --prefix --keys-only " + root_ + "/" + name + "/"));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) all.push_back(line);
  return all;
}

}  // namespace holdfast::test

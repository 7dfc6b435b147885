#include "tests/etcd/server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/etcd/cluster.hpp"

namespace holdfast::test {
namespace {

int free_port() {
  int const probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  (void)::bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(probe);
  return ntohs(address.sin_port);
}

}  // namespace

Server::Server(std::string files, bool tls, std::vector<std::string> const& arguments)
    : files_(std::move(files)), tls_(tls), port_(free_port()) {
  char const* const named = std::getenv("HOLDFAST_ETCD");
  std::string const url = (tls ? "https://" : "http://") + address();
  std::string const peer = "http://127.0.0.1:" + std::to_string(free_port());
  std::vector<std::string> words{named == nullptr ? "etcd" : named,
                                 "--data-dir",
                                 files_ + "/data",
                                 "--listen-client-urls",
                                 url,
                                 "--advertise-client-urls",
                                 url,
                                 "--listen-peer-urls",
                                 peer,
                                 "--initial-advertise-peer-urls",
                                 peer,
                                 "--initial-cluster",
                                 "default=" + peer,
                                 "--logger",
                                 "zap"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::string const log = files_ + "/log";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int const out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  EXPECT_TRUE(eventually([&] { return serves(); })) << "see " << log;
}

Server::~Server() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Server::command(std::string const& arguments) const {
  std::string const certificates =
      " --cacert=" + files_ + "/ca.pem --cert=" + files_ + "/client.pem --key=" + files_ + "/client.key ";
  return "ETCDCTL_API=3 etcdctl --endpoints=" + std::string(tls_ ? "https://" : "http://") + address() +
         (tls_ ? certificates : " ") + arguments;
}

std::string Server::ctl(std::string const& arguments) const { return output_of(command(arguments)); }

bool Server::serves() const { return std::system((command("endpoint health") + " >/dev/null 2>&1").c_str()) == 0; }

}  // namespace holdfast::test

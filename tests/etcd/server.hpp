#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace holdfast::test {

/// One etcd of its own, for what the cluster beside the tests is not set up for: TLS and users.
class Server {
 public:
  /// `files`: a directory to work in. `arguments`: what is not about addresses and data.
  Server(std::string files, bool tls, std::vector<std::string> const& arguments);
  Server(Server const&) = delete;
  ~Server();

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// etcdctl for it. With TLS, as somebody whose certificate is ca.pem, client.pem and client.key in the directory.
  std::string ctl(std::string const& arguments) const;
  bool serves() const;

 private:
  std::string command(std::string const& arguments) const;

  std::string const files_;
  bool const tls_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace holdfast::test

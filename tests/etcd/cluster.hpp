#pragma once

#include <gtest/gtest.h>

#include <holdfast/holdfast.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/place.hpp"

namespace holdfast::test {

/// Has the cluster beside this program do something: see tests/cluster/members.py for what it understands.
std::string order(std::string const& command);

/// What a command prints; fails the test if it does not succeed.
std::string output_of(std::string const& command);

/// etcdctl with the endpoints of all members.
std::string etcdctl(std::string const& arguments);

/// The sum over all members of what they report of a counter, for the lines that have all the words.
double counted(std::vector<std::string> const& words);

/// Client addresses, "127.0.0.1:port", of members 1, 2, 3.
std::vector<std::string> members();

/// The connections of this process to members: by their local ports, to 1, 2 or 3.
std::map<int, int> connections();

/// On which member's connection a client is, the only one that was made since; 0 if none.
int pinned(std::map<int, int> const& before);

/// A fresh root for each test, and a whole cluster before and after it.
class Etcd : public testing::Test {
 protected:
  Etcd();
  ~Etcd() override;

  std::string url(std::string const& query = "") const;
  Client connect(std::string const& query = "") const { return Client::connect(url(query)).value(); }
  /// The keys in a line, as etcd has them.
  std::vector<std::string> keys(std::string const& name) const;

  std::string root_;
};

}  // namespace holdfast::test

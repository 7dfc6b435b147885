#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/use_future.hpp>
#include <future>
#include <holdfast/holdfast.hpp>

#include "tests/cluster/control.hpp"
#include "tests/conformance/place.hpp"
#include "tests/zk/proxy.hpp"

namespace holdfast::test {

/// An ensemble, and a root of its own for each test.
class Zk : public testing::Test {
 protected:
  Zk() {
    static int count = 0;
    root_ = "/zk-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
  }

  std::string url(std::string const& query = "") const { return at(hosts(), query); }
  std::string at(std::string const& hosts, std::string const& query = "") const {
    return "zk://" + hosts + root_ + (query.empty() ? "" : "?" + query);
  }
  static std::string hosts() { return Cluster::url().substr(5); }

  Client connect(std::string const& query = "") const { return Client::connect(url(query)).value(); }
  Client through(Proxy const& proxy, std::string const& query = "") const {
    return Client::connect(at(proxy.address(), query)).value();
  }

  Cluster cluster_;
  std::string root_;
};

}  // namespace holdfast::test

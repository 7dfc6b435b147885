#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/eventually.hpp"

namespace holdfast::test {

using namespace std::chrono_literals;

/// A cluster that runs beside this test (tests/cluster), without a root; empty if there is none.
inline std::string cluster_url() {
  char const* const url = std::getenv("HOLDFAST_TEST_URL");
  return url == nullptr ? "" : url;
}

/// The backends of this build, or the service of the cluster.
inline std::vector<std::string> backends() {
  if (auto const url = cluster_url(); !url.empty()) return {url.substr(0, url.find(':'))};
  std::vector<std::string> all;
#ifdef HOLDFAST_WITH_MEMORY
  all.emplace_back("memory");
#endif
#ifdef HOLDFAST_WITH_FILE
  all.emplace_back("file");
#endif
  return all;
}

/// Every test here runs on every backend; each gets a fresh, empty place of its own.
class Conformance : public testing::TestWithParam<std::string> {
 protected:
  Conformance() {
    static int count = 0;
    name_ = "conformance-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    if (GetParam() == "file") {
      auto const base = std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                            : std::filesystem::temp_directory_path();
      directory_ = base / name_;
    }
  }
  ~Conformance() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  std::string url(std::string const& query = "") const { return place() + (query.empty() ? "" : "?" + query); }
  std::string place() const {
    if (GetParam() == "file") return "file:" + directory_.string();
    if (GetParam() == "memory") return "memory:" + name_;
    return cluster_url() + "/" + name_;
  }
  Client connect(std::string const& query = "") const { return Client::connect(url(query)).value(); }

  /// A short lease, but not so short that a busy machine is late to renew it at a cluster that runs on it as well.
  std::chrono::milliseconds short_ttl() const {
    return cluster_url().empty() ? 300ms : GetParam() == "etcd" ? 4000ms : 2000ms;
  }

  /// Long enough to stand in line by then, also on a busy machine.
  std::chrono::milliseconds short_wait() const { return cluster_url().empty() ? 50ms : 1000ms; }

  bool has_lease() const { return GetParam() != "file"; }

  std::string name_;
  std::filesystem::path directory_;
};

}  // namespace holdfast::test

#pragma once

#define THREADED  // the blocking calls
#include <zookeeper/zookeeper.h>

#include <string>
#include <vector>

#include "tests/conformance/place.hpp"

namespace holdfast::test {

/// Somebody else with a plain ZooKeeper client: an operator, or a stranger.
class Raw {
 public:
  explicit Raw(std::string const& hosts, std::string const& credentials = "") {
    zh_ = zookeeper_init2(
        hosts.c_str(), [](zhandle_t*, int, int, char const*, void*) {}, 10000, nullptr, nullptr, ZOO_NO_LOG_CLIENTENV,
        [](char const*) {});
    if (!credentials.empty())
      zoo_add_auth(zh_, "digest", credentials.data(), static_cast<int>(credentials.size()), nullptr, nullptr);
    EXPECT_TRUE(eventually([&] { return zoo_state(zh_) == ZOO_CONNECTED_STATE; }));
  }
  Raw(Raw const&) = delete;
  ~Raw() { zookeeper_close(zh_); }

  int create(std::string const& path, ACL_vector const& acl = ZOO_OPEN_ACL_UNSAFE) {
    return zoo_create(zh_, path.c_str(), "", 0, &acl, 0, nullptr, 0);
  }
  struct Entry {
    std::string path;
    Stat stat{};
  };
  Entry create_entry(std::string const& prefix) {
    Entry made;
    char path[1000] = "";
    EXPECT_EQ(zoo_create2(zh_, prefix.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, path, sizeof path,
                          &made.stat),
              ZOK);
    made.path = path;
    return made;
  }
  int set_acl(std::string const& path, ACL_vector const& acl) { return zoo_set_acl(zh_, path.c_str(), -1, &acl); }
  int remove(std::string const& path) { return zoo_delete(zh_, path.c_str(), -1); }
  int get(std::string const& path) {
    char buffer[1000];
    int size = sizeof buffer;
    return zoo_get(zh_, path.c_str(), 0, buffer, &size, nullptr);
  }
  int set(std::string const& path, std::string const& data) {
    return zoo_set(zh_, path.c_str(), data.data(), static_cast<int>(data.size()), -1);
  }
  std::vector<std::string> children(std::string const& path) {
    zoo_async(
        zh_, path.c_str(), [](int, char const*, void const*) {}, nullptr);  // not what was a moment ago
    String_vector names{};
    std::vector<std::string> all;
    if (zoo_get_children(zh_, path.c_str(), 0, &names) == ZOK) all.assign(names.data, names.data + names.count);
    deallocate_String_vector(&names);
    return all;
  }

 private:
  zhandle_t* zh_ = nullptr;
};

}  // namespace holdfast::test

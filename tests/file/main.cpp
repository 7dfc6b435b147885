#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/file/process.hpp"

int main(int argc, char** argv) {
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  if (arguments.size() > 1 && arguments[0] == "--worker") {
    std::vector<std::string> const rest(arguments.begin() + 1, arguments.end());
    if (rest[0] == "client") return holdfast::test::work(rest);
    if (rest[0] == "storm") return holdfast::test::storm(rest);
    if (rest[0] == "many") return holdfast::test::many(rest);
    if (rest[0] == "steps") return holdfast::test::steps(rest);
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

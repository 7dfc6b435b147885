#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/file/process.hpp"

#ifdef __SANITIZE_THREAD__
/// The C client writes addresses into one static buffer, from the threads of all its handles.
extern "C" char const* __tsan_default_suppressions() { return "race_top:vsprintf\n"; }
#endif

int main(int argc, char** argv) {
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  if (arguments.size() > 1 && arguments[0] == "--worker")
    return holdfast::test::work({arguments.begin() + 1, arguments.end()});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

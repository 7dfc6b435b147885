#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/gate.hpp>
#include <string>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

TEST(Gate, RefusesALowerFenceAndNamesBoth) {
  MemoryFenceGate gate;
  ASSERT_TRUE(gate.admit("orders/42", {0, 12}));
  for (auto const refused : {gate.admit("orders/42", {0, 11}), gate.claim("orders/42", {0, 11})}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), errc::stale_fence);
    auto const text = refused.error().message();
    for (auto const* part : {"'orders/42'", "0.12", "0.11", "fence_epoch"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Gate, EqualPassesSinceOneHolderWritesManyTimes) {
  MemoryFenceGate gate;
  ASSERT_TRUE(gate.claim("x", {0, 5}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gate.admit("x", {0, 5}));
  EXPECT_TRUE(gate.claim("x", {0, 5}));
}

TEST(Gate, AHigherFenceRaisesTheMark) {
  MemoryFenceGate gate;
  ASSERT_TRUE(gate.claim("x", {0, 5}));
  ASSERT_TRUE(gate.admit("x", {0, 7}));
  EXPECT_EQ(gate.admit("x", {0, 6}).error(), errc::stale_fence);
  ASSERT_TRUE(gate.claim("x", {1, 1})) << "a higher epoch is above every token";
  EXPECT_EQ(gate.admit("x", {0, 8}).error(), errc::stale_fence);
}

TEST(Gate, ResourcesAreSeparate) {
  MemoryFenceGate gate;
  ASSERT_TRUE(gate.claim("x", {0, 5}));
  EXPECT_TRUE(gate.claim("y", {0, 1}));
}

TEST(Gate, ASharedNumberIsCheckedAndNeverRaisesTheMark) {
  MemoryFenceGate gate;
  EXPECT_TRUE(gate.check("x", {0, 3})) << "no writer was ever here";
  ASSERT_TRUE(gate.claim("x", {0, 5}));
  EXPECT_TRUE(gate.check("x", {0, 9})) << "a reader after that writer";
  EXPECT_TRUE(gate.check("x", {0, 7})) << "another one beside it";
  EXPECT_TRUE(gate.admit("x", {0, 5})) << "readers raise nothing";
  ASSERT_TRUE(gate.claim("x", {0, 10}));
  EXPECT_EQ(gate.check("x", {0, 9}).error(), errc::stale_fence) << "a writer came after it";
}

/// A value behind a gate, and two holders of its lock in the order that hurts: A, then B, then A's late write.
struct History {
  MemoryFenceGate gate;
  int value = 10;

  /// Whether it was accepted.
  bool write(Fence fence, int what) {
    if (!gate.admit("value", fence)) return false;
    value = what;
    return true;
  }
};

TEST(Gate, WithoutAClaimAnOlderWriteLandsBetweenReadAndWrite) {
  History history;
  Fence const a{0, 1}, b{0, 2};
  int const read_by_a = history.value;
  int const read_by_b = history.value;
  EXPECT_TRUE(history.write(a, read_by_a + 1)) << "the gate has not heard of B";
  EXPECT_TRUE(history.write(b, read_by_b + 1));
  EXPECT_EQ(history.value, 11) << "two accepted additions, and one of them is gone";
}

TEST(Gate, AClaimBeforeTheReadKeepsOlderWritesOut) {
  History history;
  Fence const a{0, 1}, b{0, 2};
  ASSERT_TRUE(history.gate.claim("value", a));
  int const read_by_a = history.value;
  ASSERT_TRUE(history.gate.claim("value", b));
  int const read_by_b = history.value;
  EXPECT_FALSE(history.write(a, read_by_a + 1));
  EXPECT_TRUE(history.write(b, read_by_b + 1));
  EXPECT_EQ(history.value, 11) << "one accepted addition";
}

TEST(Gate, ManyThreadsLeaveTheHighestAsTheMark) {
  constexpr std::uint64_t kThreads = 4, kEach = 2000;
  MemoryFenceGate gate;
  std::atomic<std::uint64_t> refused = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t first = 1; first <= kThreads; ++first)
      threads.emplace_back([&, first] {
        for (auto token = first; token <= kThreads * kEach; token += kThreads)
          if (auto const passed = gate.admit("x", {0, token}); !passed) ++refused;
      });
  }
  EXPECT_LT(refused, kThreads * kEach);
  EXPECT_EQ(gate.check("x", {0, kThreads * kEach - 1}).error(), errc::stale_fence);
  EXPECT_TRUE(gate.admit("x", {0, kThreads * kEach}));
}

}  // namespace
}  // namespace holdfast

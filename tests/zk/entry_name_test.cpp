#include "zk/entry_name.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace holdfast::detail {
namespace {

constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();

std::vector<std::string> keys(std::vector<std::string> const& children) {
  std::vector<std::string> out;
  for (auto const& entry : parse_line(children)) out.push_back(entry.key);
  return out;
}

TEST(EntryName, SequenceNumbersAreComparedAcrossTheWrap) {
  EXPECT_TRUE(before(1, 2));
  EXPECT_FALSE(before(2, 1));
  EXPECT_FALSE(before(7, 7));
  EXPECT_TRUE(before(kMost, kLeast));
  EXPECT_FALSE(before(kLeast, kMost));
  EXPECT_TRUE(before(-1, 0));
}

TEST(EntryName, ALineAcrossTheWrapIsInOrder) {
  EXPECT_EQ(keys({"_c_b-lock--2147483648", "_c_a-lock-2147483647", "_c_c-lock--2147483647"}),
            (std::vector<std::string>{"_c_a-lock-2147483647", "_c_b-lock--2147483648", "_c_c-lock--2147483647"}));
  EXPECT_EQ(keys({"x-lock-0000000000", "x-lock--000000001"}),
            (std::vector<std::string>{"x-lock--000000001", "x-lock-0000000000"}));
}

TEST(EntryName, OrderIsByNumberNotByName) {
  EXPECT_EQ(keys({"_c_a-lock-0000000010", "_c_z-lock-0000000002", "_c_m-lock-0000000003"}),
            (std::vector<std::string>{"_c_z-lock-0000000002", "_c_m-lock-0000000003", "_c_a-lock-0000000010"}));
}

TEST(EntryName, TheMarkerTellsTheKind) {
  EXPECT_EQ(parse_entry("_c_x-lock-0000000001")->kind, Kind::lock);
  EXPECT_EQ(parse_entry("_c_x-latch-0000000001")->kind, Kind::lock);
  EXPECT_EQ(parse_entry("_c_x-__READ__0000000001")->kind, Kind::read);
  EXPECT_EQ(parse_entry("_c_x-__WRIT__0000000001")->kind, Kind::write);
  EXPECT_EQ(parse_entry("deadbeef__lock__0000000004")->sequence, 4) << "unknown, and a blocker";
}

TEST(EntryName, WhatHasNoNumberStandsInNoLine) {
  for (auto const* name : {"", "config", "lock-", "lock-12", "lock-000000000x", "lock-99999999999"})
    EXPECT_FALSE(parse_entry(name) && parse_entry(name)->sequence == 0) << name;
  EXPECT_FALSE(parse_entry("config"));
  EXPECT_FALSE(parse_entry("lock-000000000x"));
}

}  // namespace
}  // namespace holdfast::detail

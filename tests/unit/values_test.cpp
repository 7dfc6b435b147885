#include <gtest/gtest.h>

#include <holdfast/fence.hpp>
#include <holdfast/sequencer.hpp>

#include <boost/crc.hpp>
#include <cstdio>
#include <limits>

#include "common/duration.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

template <class T>
std::string why(Result<T> const& result) {
  return result ? "" : result.error().message();
}

template <class T>
void expect_problem(Result<T> const& result, std::string_view part) {
  ASSERT_FALSE(result) << part;
  EXPECT_TRUE(result.error() == errc::invalid_argument);
  EXPECT_NE(why(result).find(part), std::string::npos) << why(result);
}

TEST(Duration, IsAWholeNumberAndAUnit) {
  EXPECT_EQ(detail::parse_duration("250ms").value(), 250ms);
  EXPECT_EQ(detail::parse_duration("10s").value(), 10s);
  EXPECT_EQ(detail::parse_duration("5m").value(), 5min);
  EXPECT_EQ(detail::parse_duration("1h").value(), 1h);
  EXPECT_EQ(detail::parse_duration("0s").value(), 0ms);
}

TEST(Duration, MissingUnitShowsTheAcceptedForms) {
  expect_problem(detail::parse_duration("10"), "'10' has no unit");
  expect_problem(detail::parse_duration("10"), "250ms, 10s, 5m or 1h");
}

TEST(Duration, NegativeIsRefused) { expect_problem(detail::parse_duration("-5s"), "'-5s' is negative"); }

TEST(Duration, OtherTextIsRefused) {
  for (std::string_view const text :
       {"", "s", "ms", "1.5s", "1 s", " 1s", "1s ", "+1s", "1S", "1d", "1us", "0x1s", "1s2s", "s1", "ten seconds"}) {
    expect_problem(detail::parse_duration(text), "is not a duration");
  }
  expect_problem(detail::parse_duration("1s\0"s), "is not a duration");
}

TEST(Duration, OverflowIsRefused) {
  for (std::string_view const text :
       {"9223372036854775808ms", "9223372036854775807h", "99999999999999999999999s", "9223372036855ms", "2562048h"}) {
    expect_problem(detail::parse_duration(text), "is too long");
  }
  // The longest that a deadline in nanoseconds can count.
  EXPECT_EQ(detail::parse_duration("9223372036854ms").value(), 9223372036854ms);
}

TEST(Fence, OrdersByEpochFirst) {
  EXPECT_LT(Fence(0, 5), Fence(0, 6));
  EXPECT_LT(Fence(0, 999), Fence(1, 1));
  EXPECT_EQ(Fence(), Fence(0, 0));
}

TEST(Fence, TextAndBack) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (Fence const fence : {Fence(), Fence(0, 4711), Fence(3, 1), Fence(kMost, kMost)}) {
    EXPECT_EQ(Fence::parse(fence.to_string()).value(), fence);
  }
  EXPECT_EQ(Fence(0, 4711).to_string(), "0.4711");
}

TEST(Fence, OtherTextIsRefusedAndNamed) {
  for (std::string_view const text :
       {"", ".", "1", "1.", ".1", "1.2.3", "-1.2", "+1.2", "1.-2", " 1.2", "1.2 ", "01.2", "1.02", "a.b", "0x1.2",
        "1,2", "18446744073709551616.0", "0.18446744073709551616"}) {
    expect_problem(Fence::parse(text), "'" + std::string(text) + "' is not a fence");
  }
}

Sequencer const kExample("etcd:/app", "orders/42", "6c1f-0", Fence(0, 4711));

/// A text with the right checksum, whatever its body.
std::string sealed(std::string const& body) {
  boost::crc_32_type crc;
  crc.process_bytes(body.data(), body.size());
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), ":%08x", static_cast<unsigned>(crc.checksum()));
  return body + digits.data();
}

TEST(Sequencer, IsOnePrintableWord) {
  EXPECT_EQ(kExample.encode(), sealed("hf1:etcd%3A%2Fapp:orders%2F42:6c1f-0:0.4711"));
}

TEST(Sequencer, TextAndBack) {
  Sequencer const odd(" \0:%"s, "\xff\n", "", Fence(7, 8));
  for (Sequencer const& sequencer : {kExample, odd, Sequencer()}) {
    EXPECT_EQ(Sequencer::parse(sequencer.encode()).value(), sequencer);
    EXPECT_EQ(sequencer.encode().find_first_of(" \n"), std::string::npos);
  }
}

TEST(Sequencer, TruncatedTextIsRefused) {
  std::string const text = kExample.encode();
  for (std::size_t size = 1; size < text.size(); ++size) {
    expect_problem(Sequencer::parse(text.substr(0, size)), "truncated or mistyped");
  }
  expect_problem(Sequencer::parse(""), "empty");
}

TEST(Sequencer, EveryMistypedCharacterIsNoticed) {
  std::string const text = kExample.encode();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string mistyped = text;
    mistyped[i] = mistyped[i] == 'x' ? 'y' : 'x';
    expect_problem(Sequencer::parse(mistyped), "truncated or mistyped");
  }
}

TEST(Sequencer, SpaceAroundItIsRefused) {
  expect_problem(Sequencer::parse(" " + kExample.encode()), "mistyped");
  expect_problem(Sequencer::parse(kExample.encode() + "\n"), "mistyped");
}

TEST(Sequencer, AnotherVersionIsRefused) {
  expect_problem(Sequencer::parse(sealed("hf2:p:l:e:0.1")), "version");
  expect_problem(Sequencer::parse(sealed("")), "version");
}

TEST(Sequencer, NumberOfPartsIsExact) {
  for (std::string const& body : {"hf1"s, "hf1:"s, "hf1:p:l:0.1"s, "hf1:p:l:e:0.1:"s, "hf1:p:l:e:x:0.1"s}) {
    expect_problem(Sequencer::parse(sealed(body)), "number of parts");
  }
}

TEST(Sequencer, BrokenPartIsNamed) {
  expect_problem(Sequencer::parse(sealed("hf1:%:l:e:0.1")), "place");
  expect_problem(Sequencer::parse(sealed("hf1:p:%2:e:0.1")), "lock's name");
  expect_problem(Sequencer::parse(sealed("hf1:p:l:%zz:0.1")), "entry");
  expect_problem(Sequencer::parse(sealed("hf1:p:l:e:1")), "fence");
  expect_problem(Sequencer::parse(sealed("hf1:p:l:e:0.01")), "fence");
}

TEST(Sequencer, OnlyTheCanonicalFormIsAccepted) {
  for (std::string const& body : {"hf1:a%2fb:l:e:0.1"s, "hf1:%61:l:e:0.1"s, "hf1:a b:l:e:0.1"s, "hf1:a/b:l:e:0.1"s}) {
    expect_problem(Sequencer::parse(sealed(body)), "canonical");
  }
}

TEST(Sequencer, LongTextIsRefused) {
  EXPECT_TRUE(Sequencer::parse(Sequencer(std::string(4000, 'a'), "l", "e", {}).encode()));
  expect_problem(Sequencer::parse(Sequencer(std::string(4096, 'a'), "l", "e", {}).encode()), "longer than 4096");
}

}  // namespace
}  // namespace holdfast

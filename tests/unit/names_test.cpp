#include "common/names.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/text.hpp"

namespace holdfast::detail {
namespace {

using namespace std::string_literals;

std::string why(Result<std::string> const& result) { return result ? "" : result.error().message(); }

TEST(PercentEncode, LeavesUnreservedCharactersAlone) {
  EXPECT_EQ(percent_encode("azAZ09-_.~"), "azAZ09-_.~");
  EXPECT_EQ(percent_encode(""), "");
}

TEST(PercentEncode, EncodesEverythingElseInUpperCase) {
  EXPECT_EQ(percent_encode("orders/42"), "orders%2F42");
  EXPECT_EQ(percent_encode("a b%\n"), "a%20b%25%0A");
  EXPECT_EQ(percent_encode("\0\xff"s), "%00%FF");
  EXPECT_EQ(percent_encode("\u00e9"), "%C3%A9");
}

TEST(PercentDecode, ReversesEncodingOfEveryByte) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(percent_decode(percent_encode(all)).value(), all);
}

TEST(PercentDecode, AcceptsBothCases) { EXPECT_EQ(percent_decode("%2f%2F").value(), "//"); }

TEST(PercentDecode, BrokenEscapeIsRefused) {
  for (std::string_view const text : {"%", "a%", "%2", "a%2", "%zz", "%2g", "%%20", "% 20", "%-1"}) {
    EXPECT_TRUE(percent_decode(text).error() == errc::invalid_argument) << text;
  }
}

TEST(LockName, BecomesOnePathSegment) {
  EXPECT_EQ(encode_name("orders/42").value(), "orders%2F42");
  EXPECT_EQ(encode_name("a\0b"s).value(), "a%00b");
  EXPECT_EQ(encode_name("\U0001F512").value(), "%F0%9F%94%92");
}

TEST(LockName, DotsThatMeanDirectoriesAreEncoded) {
  EXPECT_EQ(encode_name(".").value(), "%2E");
  EXPECT_EQ(encode_name("..").value(), "%2E%2E");
  EXPECT_EQ(encode_name("...").value(), "...");
  EXPECT_EQ(encode_name(".a").value(), ".a");
}

TEST(LockName, DecodesToItself) {
  for (std::string const& name : {"."s, ".."s, "a/b c"s, "%2E"s, "\0"s}) {
    EXPECT_EQ(percent_decode(encode_name(name).value()).value(), name);
  }
}

TEST(LockName, EmptyIsRefused) {
  auto const result = encode_name("");
  EXPECT_TRUE(result.error() == errc::invalid_argument);
  EXPECT_NE(why(result).find("empty"), std::string::npos);
}

TEST(LockName, LimitCountsEncodedBytesAndIsNamed) {
  EXPECT_TRUE(encode_name(std::string(200, 'a')));
  EXPECT_TRUE(encode_name(std::string(66, '/')));
  EXPECT_NE(why(encode_name(std::string(231, 'a'))).find("lock name is 231 bytes after encoding; the limit is 200"),
            std::string::npos);
  EXPECT_NE(why(encode_name(std::string(67, '/'))).find("201 bytes"), std::string::npos);
}

TEST(LockName, BadUtf8IsRefused) {
  std::vector<std::string> const bad = {
      "\x80",                  // a continuation without a lead
      "\xC3",                  // cut off
      "\xE2\x82",              // cut off
      "\xF0\x9F\x94",          // cut off
      "\xC3\x28",              // no continuation
      "\xC0\xAF",              // overlong '/'
      "\xC1\xBF",              // overlong
      "\xE0\x80\xAF",          // overlong
      "\xF0\x80\x80\xAF",      // overlong
      "\xED\xA0\x80",          // surrogate
      "\xED\xBF\xBF",          // surrogate
      "\xF4\x90\x80\x80",      // above U+10FFFF
      "\xF8\x88\x80\x80\x80",  // five bytes
      "\xFE",
      "\xFF",
      "fine\xFF",
  };
  for (std::string const& name : bad) {
    EXPECT_FALSE(valid_utf8(name));
    EXPECT_NE(why(encode_name(name)).find("UTF-8"), std::string::npos) << percent_encode(name);
  }
}

TEST(LockName, EdgesOfUtf8AreAccepted) {
  for (std::string_view const name : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                      "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(encode_name(name)) << percent_encode(name);
  }
}

TEST(DefaultLabel, IsHostAndPid) {
  std::string const label = default_label();
  EXPECT_TRUE(label.ends_with(":" + std::to_string(::getpid()))) << label;
  EXPECT_GT(label.find(':'), 0U);
}

TEST(InQuotes, HidesControlCharactersAndShortens) {
  EXPECT_EQ(in_quotes("plain \u00e9"), "'plain \u00e9'");
  EXPECT_EQ(in_quotes("\x1b[2J\0"s), "'\\x1B[2J\\x00'");
  EXPECT_EQ(in_quotes("\xff"), "'\\xFF'");
  std::string const cut = in_quotes(std::string(119, 'a') + "\u00e9" + std::string(500, 'b'));
  EXPECT_EQ(cut, "'" + std::string(119, 'a') + "...'");
}

}  // namespace
}  // namespace holdfast::detail

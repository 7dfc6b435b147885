#include "common/error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/text.hpp"

namespace holdfast::detail {
namespace {

std::vector<errc> all_conditions() {
  std::vector<errc> all;
  for (int i = static_cast<int>(errc::busy); i <= static_cast<int>(errc::corrupt); ++i) all.push_back(errc(i));
  return all;
}

TEST(Error, EveryConditionHasWordsOfItsOwn) {
  std::set<std::string> seen;
  for (errc const e : all_conditions()) {
    error_code const code = make_error_code(e);
    EXPECT_TRUE(code.failed());
    EXPECT_TRUE(code == e);
    EXPECT_EQ(condition(code), e);
    EXPECT_TRUE(seen.insert(code.message()).second) << code.message();
  }
  EXPECT_EQ(seen.count("unknown error"), 0U);
}

TEST(Error, FailSaysConditionAndText) {
  error_code const code = fail(errc::denied, "user 'bob'");
  EXPECT_EQ(code.message(), make_error_code(errc::denied).message() + ": user 'bob'");
  EXPECT_TRUE(code == errc::denied);
  EXPECT_FALSE(code == errc::busy);
  EXPECT_EQ(code.value(), static_cast<int>(errc::denied));
  EXPECT_STREQ(code.category().name(), "holdfast");
}

TEST(Error, RawCodeStaysReadableAndIsAFailureWhateverItIs) {
  for (int const raw : {-112, -1, 1, 99}) {
    error_code const code = fail(errc::lost, "session expired", raw);
    EXPECT_EQ(code.value(), raw);
    EXPECT_TRUE(code.failed());
    EXPECT_TRUE(code == errc::lost);
    EXPECT_EQ(condition(code), errc::lost);
  }
}

TEST(Error, RawCodeOfOneConditionIsNotMistakenForAnotherCondition) {
  error_code const code = fail(errc::lost, "raw code equals busy's number", static_cast<int>(errc::busy));
  EXPECT_FALSE(code == errc::busy);
  EXPECT_EQ(condition(code), errc::lost);
}

TEST(Error, EqualTextsShareOneCategory) {
  error_code const one = fail(errc::busy, "same");
  error_code const two = fail(errc::busy, std::string("sa") + "me");
  EXPECT_EQ(one, two);
  EXPECT_EQ(&one.category(), &two.category());
  EXPECT_NE(one, fail(errc::busy, "other"));
  EXPECT_NE(one, fail(errc::lost, "same"));
}

TEST(Error, WithoutTextItIsThePlainCondition) {
  EXPECT_EQ(fail(errc::busy, ""), make_error_code(errc::busy));
  error_code const raw = fail(errc::busy, "", 7);
  EXPECT_EQ(raw.value(), 7);
  EXPECT_EQ(raw.message(), make_error_code(errc::busy).message());
}

TEST(Error, LongTextIsCutBetweenCharacters) {
  std::string long_text;
  while (long_text.size() < 5000) long_text += "\u20ac";
  std::string const message = fail(errc::corrupt, long_text).message();
  EXPECT_LT(message.size(), 1100U);
  EXPECT_TRUE(valid_utf8(message));
}

TEST(Error, MessageFitsTheCallersBuffer) {
  for (error_code const& code : {fail(errc::busy, "a text"), make_error_code(errc::busy)}) {
    std::array<char, 8> buffer{};
    buffer.fill('#');
    EXPECT_EQ(std::string(code.message(buffer.data(), 5)), code.message().substr(0, 4));
    EXPECT_EQ(buffer[5], '#');
    EXPECT_STREQ(code.message(buffer.data(), 1), "");
    EXPECT_EQ(code.message(buffer.data(), 0), buffer.data());
  }
}

TEST(Error, ErrnoOfMissingRightsIsDeniedAndEverythingElseUnavailable) {
  for (int const error : {EACCES, EPERM, EROFS}) EXPECT_TRUE(fail_errno(error, "x") == errc::denied);
  error_code const code = fail_errno(ENOENT, "cannot open '/x'");
  EXPECT_TRUE(code == errc::unavailable);
  EXPECT_EQ(code.value(), ENOENT);
  EXPECT_NE(code.message().find("cannot open '/x': No such file"), std::string::npos) << code.message();
}

TEST(Error, ForeignCodesAreUnavailable) {
  EXPECT_EQ(condition(error_code(EINVAL, boost::system::generic_category())), errc::unavailable);
  EXPECT_EQ(condition(error_code(ENOENT, boost::system::system_category())), errc::unavailable);
  EXPECT_EQ(condition(std::make_error_code(std::errc::timed_out)), errc::unavailable);
  EXPECT_EQ(condition(error_code(99, error_category())), errc::unavailable);
  EXPECT_EQ(condition(error_code(0, error_category())), errc::unavailable);
}

TEST(Error, SurvivesTheWayThroughStdErrorCode) {
  std::error_code const foreign = fail(errc::stale_fence, "seen 7", 3);
  EXPECT_EQ(condition(error_code(foreign)), errc::stale_fence);
  EXPECT_EQ(foreign.message(), fail(errc::stale_fence, "seen 7").message());
}

TEST(Error, ThreadsInternTheSameTextOnce) {
  std::vector<error_code> codes(8);
  std::vector<std::thread> threads;
  for (error_code& code : codes) {
    threads.emplace_back([&code] {
      for (int i = 0; i < 100; ++i) code = fail(errc::busy, "thread text " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (error_code const& code : codes) EXPECT_EQ(code, codes.front());
}

// In a process of its own, since a full table stays full.
TEST(ErrorDeathTest, AFullTableKeepsConditionAndRawCodeAndDropsTheTextOfThatConditionAlone) {
  auto const fill = [] {
    error_code const early = fail(errc::busy, "early");
    for (int i = 0; i < 5000; ++i) (void)fail(errc::busy, "filler " + std::to_string(i));
    error_code const late = fail(errc::busy, "late", 42);
    bool const right = late == errc::busy && late.value() == 42 &&
                       late.message() == make_error_code(errc::busy).message() &&
                       fail(errc::busy, "later") == make_error_code(errc::busy) && fail(errc::busy, "early") == early &&
                       fail(errc::denied, "late").message() == make_error_code(errc::denied).message() + ": late";
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(fill(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace holdfast::detail

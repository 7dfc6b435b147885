#include <boost/crc.hpp>
#include <cstddef>
#include <cstdint>
#include <holdfast/sequencer.hpp>

#include "tests/fuzz/check.hpp"

// Any text as a sequencer or fence: it is refused, or its value encodes to that very text. The same with a checksum
// that is right, which chance would not find; and any value makes a text that is read back.

namespace holdfast::fuzz {
namespace {

constexpr std::size_t kSizeLimit = 4096;

std::string sealed(std::string_view body) {
  boost::crc_32_type crc;
  crc.process_bytes(body.data(), body.size());
  char digits[16];
  std::snprintf(digits, sizeof digits, ":%08x", static_cast<unsigned>(crc.checksum()));
  return std::string(body) + digits;
}

void check_text(std::string_view text) {
  auto const sequencer = Sequencer::parse(text);
  require(!sequencer || sequencer->encode() == text, "a sequencer has one text");
  auto const fence = Fence::parse(text);
  require(!fence || fence->to_string() == text, "a fence has one text");
}

void check_value(std::string_view bytes) {
  std::size_t const third = bytes.size() / 3;
  Sequencer const sequencer(std::string(bytes.substr(0, third)), std::string(bytes.substr(third, third)),
                            std::string(bytes.substr(2 * third)), Fence(bytes.size(), third));
  std::string const text = sequencer.encode();
  auto const again = Sequencer::parse(text);
  require(again.has_value() == (text.size() <= kSizeLimit), "exactly what fits is read back");
  require(!again || *again == sequencer, "a sequencer is read back as it was");
}

}  // namespace
}  // namespace holdfast::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  holdfast::fuzz::check_text(text);
  holdfast::fuzz::check_text(holdfast::fuzz::sealed(text));
  holdfast::fuzz::check_text(holdfast::fuzz::sealed("hf1:" + std::string(text)));
  holdfast::fuzz::check_value(text);
  return 0;
}

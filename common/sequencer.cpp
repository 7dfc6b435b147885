#include <array>
#include <boost/crc.hpp>
#include <holdfast/sequencer.hpp>

#include "common/error.hpp"
#include "common/names.hpp"
#include "common/text.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kVersion = "hf1";
constexpr std::size_t kSizeLimit = 4096;

using Parts = std::array<std::string_view, 5>;  // version, place, lock, entry, fence

std::string checksum(std::string_view body) {
  constexpr std::string_view kHex = "0123456789abcdef";
  boost::crc_32_type crc;
  crc.process_bytes(body.data(), body.size());
  std::string out;
  for (unsigned shift = 32; shift > 0; shift -= 4) out += kHex[(crc.checksum() >> (shift - 4)) & 0x0FU];
  return out;
}

/// Fills `parts`; false if there are more or fewer of them.
bool split(std::string_view body, Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::size_t const colon = body.find(':');
    bool const last = i + 1 == parts.size();
    if ((colon == std::string_view::npos) != last) return false;
    parts[i] = body.substr(0, colon);
    if (!last) body.remove_prefix(colon + 1);
  }
  return true;
}

// Sequencers come from outside. Their errors do not repeat the text, so that a flood of bad ones interns a few texts.
error_code wrong(std::string const& why) { return detail::fail(errc::invalid_argument, "sequencer: " + why); }

}  // namespace

std::string Sequencer::encode() const {
  std::string out(kVersion);
  for (std::string const& part : {place_, lock_, entry_, fence_.to_string()}) {
    out += ':';
    out += detail::percent_encode(part);
  }
  return out + ":" + checksum(out);
}

Result<Sequencer> Sequencer::parse(std::string_view text) {
  if (text.empty()) return wrong("the text is empty");
  if (text.size() > kSizeLimit) return wrong("the text is longer than " + std::to_string(kSizeLimit) + " bytes");

  std::size_t const colon = text.rfind(':');
  std::string_view const body = text.substr(0, colon);
  if (colon == std::string_view::npos || text.substr(colon + 1) != checksum(body)) {
    return wrong("the checksum does not match: the text is truncated or mistyped");
  }

  if (body.substr(0, body.find(':')) != kVersion) return wrong("the version is not " + std::string(kVersion));
  Parts parts;
  if (!split(body, parts)) return wrong("the number of parts is wrong");

  auto const place_part = detail::percent_decode(parts[1]);
  if (!place_part) return wrong("the place has a broken escape");
  auto const lock_part = detail::percent_decode(parts[2]);
  if (!lock_part) return wrong("the lock's name has a broken escape");
  auto const entry_part = detail::percent_decode(parts[3]);
  if (!entry_part) return wrong("the entry has a broken escape");
  auto const fence_part = detail::parse_fence(parts[4]);
  if (!fence_part) return wrong("the fence is not epoch.token");

  Sequencer result(*place_part, *lock_part, *entry_part, *fence_part);
  // One hold, one text: otherwise two spellings of the same proof would compare unequal elsewhere.
  if (result.encode() != text) return wrong("the text is not in canonical form");
  return result;
}

}  // namespace holdfast

#include "local/file_values.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <cstring>

#include "common/error.hpp"

namespace holdfast::detail::file {

namespace {

constexpr char kValuesName[] = "values", kValuesNew[] = "values.new";
constexpr std::string_view kValuesMagic = "holdfast values 1\n";

// magic, then for each key: its size, its value's size, key, value; at last the CRC-32 of all before it.

void add_number(std::string& text, std::uint32_t number) {
  text.append(reinterpret_cast<char const*>(&number), sizeof number);
}

std::uint32_t checksum(std::string_view text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  return crc.checksum();
}

std::string to_text(Values const& values) {
  std::string text(kValuesMagic);
  for (auto const& [key, value] : values) {
    add_number(text, static_cast<std::uint32_t>(key.size()));
    add_number(text, static_cast<std::uint32_t>(value.size()));
    text.append(key).append(value);
  }
  add_number(text, checksum(text));
  return text;
}

/// False if that is not what to_text() makes.
bool from_text(std::string_view text, Values& values) {
  auto const number = [&text] {
    std::uint32_t what = 0;
    std::memcpy(&what, text.data(), sizeof what);
    text.remove_prefix(sizeof what);
    return what;
  };
  if (text.size() < kValuesMagic.size() + sizeof(std::uint32_t) || !text.starts_with(kValuesMagic)) return false;
  std::string_view sum = text.substr(text.size() - sizeof(std::uint32_t));
  text.remove_suffix(sum.size());
  std::uint32_t const whole = checksum(text);
  if (std::memcmp(&whole, sum.data(), sizeof whole) != 0) return false;
  text.remove_prefix(kValuesMagic.size());
  while (text.size() >= 2 * sizeof(std::uint32_t)) {
    std::size_t const key = number(), value = number();
    if (text.size() < key || text.size() - key < value) return false;
    values.emplace(text.substr(0, key), text.substr(key, value));
    text.remove_prefix(key + value);
  }
  return text.empty();
}

}  // namespace

Result<Values> load_values(int dir, std::string const& path) {
  auto const name = path + "/" + kValuesName;
  Fd const fd(::openat(dir, kValuesName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return Values();
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno(errno, name);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  auto const n = read_at(fd.get(), text.data(), text.size(), 0);
  if (n < 0) return fail_errno(errno, name);
  Values values;
  if (static_cast<std::size_t>(n) != text.size() || !from_text(text, values))
    return fail(errc::corrupt, name + " is damaged");
  return values;
}

Result<void> store_values(int dir, std::string const& path, Values const& values, Rights rights) {
  ::unlinkat(dir, kValuesNew, 0);  // of somebody who died while writing it
  Fd const fd(::openat(dir, kValuesNew, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, rights.mode));
  if (!fd) return fail_errno(errno, path + "/" + kValuesNew);
  auto const text = to_text(values);
  int error = rights.give(fd.get()) ? 0 : errno;
  if (error == 0) error = write_at(fd.get(), text.data(), text.size(), 0);
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error == 0 && ::renameat(dir, kValuesNew, dir, kValuesName) != 0) error = errno;
  if (error == 0) {
    // The new one is in its place, and counts, whatever comes of this.
    ::fsync(dir);
    return {};
  }
  ::unlinkat(dir, kValuesNew, 0);
  return fail_errno(error, path + "/" + kValuesNew);
}

}  // namespace holdfast::detail::file

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "local/file_fd.hpp"

// One line as a file: a header, then fixed-size records in the order of the joins. Who is ahead of a record is found by
// reading backwards, whom its departure may admit by reading forwards, both only as far as needed, so that a hand-over
// costs the same in a short line and in a long one.

namespace holdfast::detail::file {

constexpr std::uint64_t kRecordSize = 512;  ///< a page holds a whole number of them
constexpr std::size_t kLabelLimit = 256;

/// One entry. All zero (a hole): gone.
struct Record {
  static constexpr std::uint32_t kLive = 0x65'6e'66'68;
  static constexpr std::uint32_t kGone = 0;

  std::uint32_t state;
  Kind kind;
  std::uint8_t blockers;  ///< its rule: whom it waits for
  std::uint8_t waiting;   ///< 0 once it was seen granted; a bell too many does no harm
  std::uint8_t unused;
  std::uint32_t permits;
  std::uint32_t label_size;
  std::uint64_t ticket;
  std::uint64_t session;
  std::uint64_t last_writer;  ///< where the nearest write entry before this one is: readers skip each other
  std::int64_t since;         ///< wall clock, microseconds
  char label[kLabelLimit];
  char padding[kRecordSize - 48 - kLabelLimit];
};
static_assert(sizeof(Record) == kRecordSize);

/// At offset 0, as large as a record.
struct LineHeader {
  std::uint64_t magic;
  std::uint64_t head;         ///< everything before this offset is gone, whatever its record says
  std::uint64_t punched;      ///< up to here the disk blocks were given back
  std::uint32_t max_permits;  ///< the largest of any rule that joined
  std::uint8_t narrowest[4];  ///< by kind: what all rules that are blocked by this kind have in common
  char padding[kRecordSize - 32];
};
static_assert(sizeof(LineHeader) == kRecordSize);

/// Tells whether a session lives.
class Liveness {
 public:
  virtual Result<bool> alive(std::uint64_t session) = 0;

 protected:
  ~Liveness() = default;
};

/// What follows from a departure.
struct Departure {
  std::vector<std::uint64_t> wake;  ///< the sessions whose waiters it may admit, each once
  bool nobody_ahead = false;        ///< nothing is left in front of the place where it stood
};

/// Where an entry's key says that it is.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t session = 0;
};
std::string to_key(Place place);
std::optional<Place> from_key(std::string const& key);

/// A line's file, open for the length of one operation. To be used under the directory's mutex, except for `has`, whose
/// answer is then only a hint.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class Line {
 public:
  Line();

  enum class Mode { existing, create };

  /// False if there is no such line (or, with Mode::create, if the directory of lines is gone).
  Result<bool> open(int lines, std::string const& path, std::string const& name, Mode mode, Rights rights = {});
  void close() { fd_.reset(); }

  /// The nearest blockers in front of the record at `before` (an offset; end() for whoever joins next). Records of dead
  /// sessions on the way are marked gone. `more` is by record only, not looked for far, and may be wrongly given, which
  /// costs a look.
  Result<Ahead> ahead(std::uint64_t before, Rule rule, Liveness& sessions);

  /// Appends a record, after ahead(end(), …). Errors: unavailable if the disk is full; then nothing was written.
  Result<EntryRef> append(Record record);

  /// Whether that entry is there, by record.
  Result<bool> has(EntryRef const& entry);

  /// Notes that an entry that is there is granted.
  Result<void> note_granted(EntryRef const& entry);

  /// Removes an entry, and the file with the last of them; fine if it is not there. `was_first`: a hint that nobody is
  /// in front of it. On an error nothing was removed.
  Result<Departure> remove(EntryRef const& entry, bool was_first, Liveness& sessions);

  /// All living entries in order. The file is removed if there are none.
  Result<std::vector<EntryInfo>> list(Liveness& sessions);

  /// Whether any entry lives; changes nothing.
  Result<bool> occupied(Liveness& sessions);

  /// Marks every dead session's entry gone. Whether any lives.
  Result<bool> bury(Liveness& sessions);

  /// Removes the file.
  Result<void> unlink();

  /// Removes the file that could not be opened, if it is empty: whoever made it was killed before it gave it its
  /// rights.
  bool unlink_if_empty();

  std::uint64_t end() const { return end_; }
  LineHeader const& header() const { return header_; }

 private:
  enum class Direction { forward, backward };

  std::string where() const { return *path_ + "/lines/" + name_; }
  Result<void> load();
  Result<Record*> at(std::uint64_t offset, Direction direction);
  Result<Record*> find(EntryRef const& entry);
  Result<std::uint64_t> last_live_before(std::uint64_t offset, Liveness& sessions);
  Result<bool> nobody_before(std::uint64_t offset, bool likely, Liveness& sessions);
  Result<void> mark_gone(Record& record, std::uint64_t offset);
  Result<void> widen(Rule rule);
  Result<void> write_header();
  Result<void> start_over();
  Result<void> cut_tail(std::uint64_t offset, Liveness& sessions);
  void punch();

  Fd fd_;
  int lines_ = -1;
  std::string const* path_ = nullptr;
  std::string name_;
  LineHeader header_{};
  std::uint64_t end_ = 0;    ///< after the last whole record; 0: a new file
  bool all_gone_ = false;    ///< ahead() saw every record, and none was live
  std::size_t chunk_ = 0;    ///< how much to read next
  std::uint64_t begin_ = 0;  ///< what of the file is in the buffer
  std::uint64_t limit_ = 0;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace holdfast::detail::file

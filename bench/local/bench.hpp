#pragma once

#include <chrono>
#include <string>

// What one measurement is and where it is made.

namespace holdfast::bench {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

/// An empty directory of its own, removed at the end; none is made on disk unless it is asked for.
class Scratch {
 public:
  explicit Scratch(std::string const& base);
  ~Scratch();
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Acquire and release with nobody else about, in microseconds; and the system calls of that, alone.
struct Uncontended {
  double library = 0;
  double calls = 0;
  double ratio() const { return library / calls; }
};
Uncontended uncontended(std::string const& base, int rounds);

/// One of the two alone, for ever so often: for strace and perf.
void library_alone(std::string const& base, int times);
void calls_alone(std::string const& base, int times);

/// One hand-over in a line that stays `waiters` long, in microseconds: the holder leaves, the next is granted and told,
/// and a new one joins at the end. With several processes each hand-over goes from one to another. The processors' time
/// is that of all processes together, and hardly depends on what else the machine does.
struct HandOver {
  double wall = 0;
  double processor = 0;
};
HandOver hand_over(std::string const& url, int waiters, int processes);

}  // namespace holdfast::bench

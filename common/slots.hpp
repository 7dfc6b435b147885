#pragma once

#include <cstdint>
#include <set>

namespace holdfast::detail {

/// Numbers that are used again, the lowest free one first: for names of things in a service, which are few that way,
/// however many there are one after the other. A slot is taken until the fate of what bears its number is known.
class Slots {
 public:
  std::uint32_t take() {
    std::uint32_t const slot = free_.empty() ? next_++ : *free_.begin();
    free_.erase(slot);
    return slot;
  }
  void give_back(std::uint32_t slot) { free_.insert(slot); }
  bool none_taken() const { return free_.size() == next_; }

 private:
  std::uint32_t next_ = 0;
  std::set<std::uint32_t> free_;
};

}  // namespace holdfast::detail

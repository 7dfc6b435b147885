#pragma once

#include <holdfast/commit.hpp>
#include <map>
#include <optional>
#include <string>

// What a commit means where the values of all keys are at hand.

namespace holdfast::detail {

using Values = std::map<std::string, std::string>;

/// The first key that is not as a condition wants it.
inline std::optional<std::string> unmet_condition(Commit const& what, Values const& values) {
  for (auto const& [key, wanted] : what.conditions()) {
    auto const found = values.find(key);
    bool const met = found == values.end() ? !wanted : wanted == found->second;
    if (!met) return key;
  }
  return std::nullopt;
}

inline void apply_writes(Commit const& what, Values& values) {
  for (auto const& [key, value] : what.writes())
    if (value)
      values[key] = *value;
    else
      values.erase(key);
}

}  // namespace holdfast::detail

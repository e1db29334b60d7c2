// The options that bench/support/process.lua passes to its children in the environment.
#pragma once

#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace holdfast::bench {

class Options {
 public:
  /// HOLDFAST_BENCH_OPTIONS: "name=value,name=value".
  Options() {
    const char* given = std::getenv("HOLDFAST_BENCH_OPTIONS");
    std::istringstream words(given == nullptr ? "" : given);
    for (std::string word; std::getline(words, word, ',');)
      if (const auto at = word.find('='); at != std::string::npos) values_[word.substr(0, at)] = word.substr(at + 1);
  }

  const std::string& text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::invalid_argument("no option " + name);
    return found->second;
  }
  double number(const std::string& name) const { return std::stod(text(name)); }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace holdfast::bench

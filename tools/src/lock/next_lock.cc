#include "lock/next_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/paths.h"
#include "holdfast.h"

namespace holdfast::cli {

void put_keys_in_order(LockOptions& options) {
  std::vector<std::string>& keys = options.also;
  keys.push_back(std::move(options.key));
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  options.key = std::move(keys.front());
  keys.erase(keys.begin());
}

std::vector<std::string> words_under_lock(const LockOptions& options) {
  if (options.also.empty()) return options.command;
  std::vector<std::string> words{program_beside("holdfast"), "lock"};
  const auto add = [&words](bool given, const std::string& word) {
    if (given) words.push_back(word);
  };
  add(options.shared, "--shared");
  add(options.permits != 0, fmt::format("--permits={}", options.permits));
  add(options.replace, "--replace");
  add(options.no_fork, "--no-fork");
  add(options.close, "--close");
  add(options.quiet, "--quiet");
  add(options.verbose, "--verbose");
  add(options.timeout != kForEver,
      fmt::format("--wait={:.3f}", std::max(options.timeout - (holdfast_now() - options.start), 0.0)));
  add(true, fmt::format("--conflict-exit-code={}", options.conflict));
  add(options.exptime != 0, fmt::format("--exptime={}", options.exptime));
  if (options.kill_after) words.push_back(fmt::format("--kill-after={}", *options.kill_after));
  add(!options.why.empty(), "--why=" + options.why);
  add(!options.cluster.empty(), "--cluster=" + options.cluster);
  for (auto key = options.also.begin() + 1; key != options.also.end(); ++key) words.push_back("--also=" + *key);
  words.insert(words.end(), {"--", options.dictionary, options.also.front(), "--"});
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

}  // namespace holdfast::cli

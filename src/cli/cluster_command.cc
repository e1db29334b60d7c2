#include "cli/cluster_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string>

#include "cli/cluster_status.h"
#include "cli/dictionaries.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/question.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/json.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr int kUsage = 2;
/// Of a store; it counts in signed numbers of 64 bits.
constexpr std::uint64_t kRevisionMax = std::numeric_limits<std::int64_t>::max();

struct Asked {
  std::string dictionary;
  std::string key;
  std::uint64_t revision = 0;
};

/// The agent's answer; nothing, after a sentence, if there is none.
std::optional<Answer> ask(holdfast_question question, const Asked& asked) {
  holdfast_dict* const dict = find_dictionary(asked.dictionary);
  if (dict == nullptr) return std::nullopt;
  auto answer = ask_agent(dict, question, asked.key, asked.revision);
  if (answer) return *answer;
  say("{}", answer.status().message);
  return std::nullopt;
}

std::string time_of(const std::string& milliseconds) {
  const std::time_t seconds = std::strtoll(milliseconds.c_str(), nullptr, 10) / 1000;
  std::tm local{};
  std::array<char, 32> text{};
  ::localtime_r(&seconds, &local);
  std::strftime(text.data(), text.size(), "%F %T", &local);
  return text.data();
}

/// Numbers as numbers, what is not known as null.
inspect::Json to_json(const Asked& asked, Answer& answer) {
  inspect::Json holder{{"dictionary", asked.dictionary}, {"key", asked.key}, {"held", answer["code"] == "yes"}};
  for (const char* const name : {"host", "program", "why", "machine"})
    holder[name] = answer[name].empty() ? inspect::Json() : inspect::Json(answer[name]);
  for (const char* const name : {"pid", "revision", "when"}) {
    const auto number = inspect::whole_number_of(answer[name]);
    holder[name] = number ? inspect::Json(*number) : inspect::Json();
  }
  return holder;
}

int show_holder(const Asked& asked, bool as_json) {
  auto answer = ask(HOLDFAST_ASK_HOLDER, asked);
  if (!answer) return EXIT_FAILURE;
  if (as_json) {
    print_json(to_json(asked, *answer), output_for(Color::automatic));
    return EXIT_SUCCESS;
  }
  if ((*answer)["code"] == "no") {
    fmt::print("{}: free\n", inspect::escaped(asked.key));
    return EXIT_SUCCESS;
  }
  // Others wrote these names.
  const auto text = [&](const char* field) { return inspect::escaped((*answer)[field]); };
  std::string line = fmt::format("{}: held by host {}", inspect::escaped(asked.key), text("host"));
  if (answer->contains("pid")) line += fmt::format(", pid {} ({})", text("pid"), text("program"));
  if (answer->contains("why")) line += fmt::format(", why: {}", text("why"));
  if (answer->contains("when")) line += fmt::format(", since {}", time_of((*answer)["when"]));
  fmt::print("{}; machine {}, revision {}\n", line, (*answer)["machine"], (*answer)["revision"]);
  return EXIT_SUCCESS;
}

int break_grant(const Asked& asked) {
  auto answer = ask(HOLDFAST_ASK_BREAK, asked);
  if (!answer) return EXIT_FAILURE;
  if ((*answer)["code"] == "yes") {
    fmt::print("{}: the grant of revision {} is broken\n", inspect::escaped(asked.key), asked.revision);
    return EXIT_SUCCESS;
  }
  say("{}: {}", inspect::escaped(asked.key), (*answer)["sentence"]);
  return EXIT_FAILURE;
}

}  // namespace

int run_cluster_command(const std::vector<std::string>& arguments) {
  CLI::App app("See and repair the locks of a cluster. The dictionaries are those of this machine.",
               "holdfast cluster");
  app.require_subcommand(1);
  Asked asked;
  CLI::App* const status = app.add_subcommand("status", "Whether this machine can have locks of the cluster");
  CLI::App* const holder = app.add_subcommand("holders", "Which machine holds a lock, as the store says");
  CLI::App* const broken = app.add_subcommand("break", "Take a lock from the machine that holds it");
  status->add_option("DICTIONARY", asked.dictionary, "Name of the dictionary; default: all that belong to clusters");
  bool as_json = false;
  for (CLI::App* const command : {status, holder})
    command->add_flag("--json", as_json, "As JSON")->disable_flag_override();
  for (CLI::App* const command : {holder, broken})
    command->add_option("DICTIONARY", asked.dictionary, "Name of the dictionary")->required();
  for (CLI::App* const command : {holder, broken}) command->add_option("KEY", asked.key, "Key of the lock")->required();
  broken->add_option("--revision", asked.revision, "Of the grant to break, as `holders` tells: no later one is broken")
      ->check(CLI::Range(std::uint64_t{1}, kRevisionMax))
      ->type_name("NUMBER")
      ->required();
  std::string directory;
  std::optional<std::string> user;
  for (CLI::App* const command : {status, holder, broken}) {
    command->add_option("--dir", directory, "The runtime directory; default: $HOLDFAST_DIR, or that of the user")
        ->type_name("PATH");
    command->add_option("--user", user, "Become that user first, to look into its world; for root")->type_name("NAME");
  }
  std::vector<std::string> own = arguments;
  std::reverse(own.begin(), own.end());  // as CLI11 takes it
  try {
    app.parse(own);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    say("{}\nTry \"holdfast cluster --help\".", error.what());
    return kUsage;
  }
  if (!directory.empty()) ::setenv("HOLDFAST_DIR", directory.c_str(), 1);
  if (const std::string wrong = user ? become_user(*user) : ""; !wrong.empty()) {
    say("{}", wrong);
    return EXIT_FAILURE;
  }
  if (*status) return show_cluster_status(asked.dictionary, as_json);
  return *holder ? show_holder(asked, as_json) : break_grant(asked);
}

}  // namespace holdfast::cli

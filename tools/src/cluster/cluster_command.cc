#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "cluster/listening_agents.h"
#include "cluster/question.h"
#include "holdfast.h"
#include "inspect/json.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

/// The highest possible revision, because etcd's revisions are signed 64-bit numbers.
constexpr std::uint64_t kRevisionMax = std::numeric_limits<std::int64_t>::max();

std::string time_of(const std::string& milliseconds) {
  const std::time_t seconds = std::strtoll(milliseconds.c_str(), nullptr, 10) / 1000;
  std::tm local{};
  std::array<char, 32> text{};
  ::localtime_r(&seconds, &local);
  std::strftime(text.data(), text.size(), "%F %T", &local);
  return text.data();
}

/// Converts an answer to JSON. Numbers remain numbers, and unknown values become null.
inspect::Json to_json(const std::string& dictionary, const std::string& key, Answer& answer) {
  inspect::Json holder;
  inspect::add_text(holder, "dictionary", dictionary);
  inspect::add_text(holder, "key", key);
  holder["held"] = answer["code"] == "yes";
  for (const char* const name : {"host", "program", "why", "machine"}) {
    if (answer[name].empty())
      holder[name] = nullptr;
    else
      inspect::add_text(holder, name, answer[name]);
  }
  for (const char* const name : {"pid", "revision", "when"}) {
    const auto number = inspect::whole_number_of(answer[name]);
    holder[name] = number ? inspect::Json(*number) : inspect::Json();
  }
  return holder;
}

std::string in_words(const std::string& key, Answer& answer) {
  if (answer["code"] == "no") return fmt::format("{}: free\n", inspect::escaped(key));
  // Escape these fields, because other programs wrote them.
  const auto text = [&](const char* field) { return inspect::escaped(answer[field]); };
  // The key was put into the store manually.
  if (answer["machine"].empty())
    return fmt::format("{}: held by no machine: its key in the store has no lease; revision {}\n",
                       inspect::escaped(key), text("revision"));
  std::string line = fmt::format("{}: held by {}", inspect::escaped(key),
                                 answer["host"].empty() ? "an unknown host" : "host " + text("host"));
  if (answer.contains("pid")) line += fmt::format(", pid {} ({})", text("pid"), text("program"));
  if (answer.contains("why")) line += fmt::format(", why: {}", text("why"));
  if (answer.contains("when")) line += fmt::format(", since {}", time_of(answer["when"]));
  return fmt::format("{}; machine {}, revision {}\n", line, text("machine"), text("revision"));
}

int run_holders(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::something);
  arguments.parse(2, 2, {"DICTIONARY", "KEY"});
  const std::string key = command.key();
  Answer answer = value_or_fail(ask_agent(command.open(KeyCommand::Does::look), HOLDFAST_ASK_HOLDER, key, 0));
  if (command.world().json())
    print_json(to_json(command.name(), key, answer), command.world().output());
  else
    print(in_words(key, answer));
  return exit_status::kYes;
}

int run_break(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  std::uint64_t revision = 0;
  arguments.add_number("--revision", "N", "Break only the grant with this revision; required", revision,
                       {.what = "revision", .least = 1, .most = kRevisionMax});
  arguments.parse(2, 2, {"DICTIONARY", "KEY"});
  if (revision == 0) arguments.refuse("no --revision was given: \"holdfast cluster holders\" shows it");
  const std::string key = command.key();
  Answer answer = value_or_fail(ask_agent(command.open(KeyCommand::Does::look), HOLDFAST_ASK_BREAK, key, revision));
  if (answer["code"] != "yes") return say_no("{}: {}", inspect::escaped(key), answer["sentence"]);
  print(fmt::format("{}: broke the grant with revision {}\n", inspect::escaped(key), revision));
  return exit_status::kYes;
}

/// Parses an id in the form in which it is printed: up to 16 hexadecimal digits.
std::optional<std::uint64_t> store_id(const std::string& text) {
  constexpr int kHexadecimal = 16;
  std::uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, id, kHexadecimal);
  return error == std::errc() && stopped == end && id != 0 ? std::optional(id) : std::nullopt;
}

int run_accept(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::nothing);
  arguments.parse(2, 2, {"CLUSTER", "ID"});
  const std::string cluster = arguments.word(0);
  if (const Status bad = check_cluster_name(cluster); !bad.ok()) arguments.refuse(bad.message);
  const auto id = store_id(arguments.word(1));
  if (!id)
    arguments.refuse(
        fmt::format("bad ID {}: expected up to 16 hexadecimal digits, as shown by \"holdfast cluster status\"",
                    quote(arguments.word(1))));
  world.apply();
  Answer answer = value_or_fail(accept_store(cluster, *id));
  const std::string sentence = answer["sentence"];
  if (answer["code"] != "yes") return say_no("{}: {}", cluster, sentence);
  print(fmt::format("{}: accepted etcd cluster {:016x} as the store{}\n", cluster, *id,
                    sentence.empty() ? "" : ": " + sentence));
  return exit_status::kYes;
}

// Runs `holdfast cluster` without a subcommand. Each subcommand has its own row in the table of commands.
int run_cluster(Arguments& arguments) {
  constexpr const char* kExpected = "expected status, holders, break or accept-new-store";
  arguments.parse(0, SIZE_MAX, {});
  if (arguments.words().empty()) arguments.refuse(fmt::format("no subcommand was given: {}", kExpected));
  arguments.refuse(fmt::format("unknown subcommand {}: {}", quote(arguments.word(0)), kExpected));
}

}  // namespace

const Subcommand kCluster{"cluster",       "Show and break the locks of a cluster",
                          "SUBCOMMAND",    "Show and break the locks of a cluster, from this machine.",
                          R"(Subcommands:
  status            Show whether this machine can get locks of a cluster
  holders           Show which machine holds a lock, according to the store
  break             Take a lock away from the machine that holds it
  accept-new-store  Accept a new store instead of the known one

Run "holdfast cluster SUBCOMMAND --help" for help on a subcommand.)", run_cluster};

const Subcommand kHolders{"cluster holders",
                          "Show which machine holds a lock, according to the store",
                          "DICTIONARY KEY",
                          "Show which machine holds a lock, according to the store.",
                          R"(Prints the host, process, reason, time of the grant, machine and revision, or "free".

Exit status: 0 success; 2 error or no answer.)",
                          run_holders};

const Subcommand kBreak{"cluster break",
                        "Take a lock away from the machine that holds it",
                        "DICTIONARY KEY --revision N",
                        "Take a lock away from the machine that holds it.",
                        R"("holdfast cluster holders" shows the revision of the grant. Later grants are not affected.
Programs on one machine pass a lock on without asking the store, so the program that holds the
lock at that moment loses it.

Exit status: 0 success; 1 the lock has no grant with that revision; 2 error.)",
                        run_break};

const Subcommand kAcceptNewStore{
    "cluster accept-new-store",
    "Accept a new store instead of the known one",
    "CLUSTER ID",
    "Accept a new store instead of the known one.",
    R"(An agent refuses an etcd cluster whose cluster id differs from the known one, because two stores
could grant the same lock twice. If you replaced the store on purpose, accept the new store on
each machine. ID is its cluster id, which "holdfast cluster status" and the agent's log show.

The agent starts to use the new store after one lease time (ttl). By then, no machine holds a
lock from the old store.

Exit status: 0 success; 1 no endpoint belongs to the new store, or most belong to the known
store; 2 error.)",
    run_accept};

}  // namespace holdfast::cli

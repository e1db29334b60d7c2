// `holdfast set`, `holdfast del`, `holdfast incr`: changes of values, for scripts.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/name.h"
#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "inspect/proc.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

int run_set(const Words& given);
int run_del(const Words& given);
int run_incr(const Words& given);

}  // namespace

const Subcommand kSet{"set",
                      "Store a value",
                      "NAME KEY VALUE",
                      "Stores a value.",
                      R"(Without VALUE, and with --stdin, it is read from standard input.

Exit status: 0; 1 refused: there is a value (--add) or there is none (--replace), or the key is
held as a lock; 2 trouble.)",
                      run_set};

const Subcommand kDel{"del",
                      "Delete keys",
                      "NAME KEY...",
                      "Deletes keys.",
                      R"(Exit status: 0; 1 one of them was not there, or is held as a lock; 2 trouble.)",
                      run_del};

const Subcommand kIncr{"incr",
                       "Add to a number",
                       "NAME KEY [BY]",
                       "Adds to a number, by default 1, and prints the sum.",
                       R"(Exit status: 0; 1 there is no such key, and no --init; 2 trouble.)",
                       run_incr};

namespace {

constexpr double kSecondsMax = 1e10;

std::string read_seconds(const std::string& text, double& seconds) {
  const auto number = inspect::number_of(text);
  if (!number || !(*number >= 0 && *number <= kSecondsMax))
    return fmt::format("bad time {}: expected seconds, 0 to 1e10, as in 2.5", quote(text));
  seconds = *number;
  return {};
}

std::string read_number(const std::string& text, double& to) {
  const auto number = inspect::number_of(text);
  // A counter that is nan or infinite stays so, and JSON cannot show it.
  if (!number || !std::isfinite(*number))
    return fmt::format("bad number {}: expected a finite decimal number, as in 7, -2.5 or 1e6", quote(text));
  to = *number;
  return {};
}

struct Stored {
  int type = HOLDFAST_STRING;
  std::string bytes;
  double number = 0;
};

/// What the text is as a value of its type; gives what is wrong with it, or nothing.
std::string read_value(const std::string& text, Stored& value) {
  if (value.type == HOLDFAST_STRING) {
    value.bytes = text;
    return {};
  }
  if (value.type == HOLDFAST_NUMBER) return read_number(text, value.number);
  if (text != "true" && text != "false") return fmt::format("bad boolean {}: expected true or false", quote(text));
  value.number = text == "true" ? 1 : 0;
  return {};
}

std::string read_type(const std::string& text, int& type) {
  if (text == "string") type = HOLDFAST_STRING;
  if (text == "number") type = HOLDFAST_NUMBER;
  if (text == "boolean") type = HOLDFAST_BOOLEAN;
  const bool known = text == "string" || text == "number" || text == "boolean";
  return known ? std::string() : fmt::format("bad type {}: expected string, number or boolean", quote(text));
}

std::string read_flags(const std::string& text, std::uint32_t& flags) {
  const auto number = inspect::whole_number_of(text);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max())
    return fmt::format("bad flags {}: expected 0 to 4294967295", quote(text));
  flags = static_cast<std::uint32_t>(*number);
  return {};
}

struct SetOptions {
  Stored value;
  double exptime = 0;
  std::uint32_t flags = 0;
  bool add = false;
  bool replace = false;
  bool safe = false;
  bool force = false;
  bool from_input = false;

  int op() const noexcept {
    if (replace) return HOLDFAST_REPLACE;
    if (add) return safe ? HOLDFAST_SAFE_ADD : HOLDFAST_ADD;
    return safe ? HOLDFAST_SAFE_SET : HOLDFAST_SET;
  }
};

void declare(Arguments& arguments, SetOptions& options) {
  arguments.add_value("-t,--type", "TYPE", "string (default), number or boolean",
                      [&](const std::string& text) { return read_type(text, options.value.type); });
  arguments.add_value("--exptime", "SECONDS", "The value ends after so long; default: never",
                      [&](const std::string& text) { return read_seconds(text, options.exptime); });
  arguments.add_value("--flags", "N", "A number that is kept beside the value",
                      [&](const std::string& text) { return read_flags(text, options.flags); });
  arguments.add_flag("-a,--add", options.add, "Only if there is no value");
  arguments.add_flag("-r,--replace", options.replace, "Only if there is a value");
  arguments.add_flag("--safe", options.safe, "Remove no other value to make room");
  arguments.add_flag("--stdin", options.from_input, "Read the value from standard input");
  arguments.add_flag("-f,--force", options.force, "Also over a lock that is held, which ends it");
  arguments.expect_words(2, 3, {"NAME", "KEY", "VALUE"});
}

/// The value of the command line or of standard input. The exit status if there is none.
std::optional<int> read_value_of(const KeyCommand& command, SetOptions& options) {
  const Arguments& arguments = command.arguments();
  const bool typed = arguments.words().size() == 3;
  if (typed == options.from_input) return arguments.refuse("expected a VALUE or --stdin, and not both");
  if (options.replace && (options.add || options.safe))
    return arguments.refuse("--replace was given with --add or --safe: expected one of them");
  const auto text = typed ? command.plain(arguments.word(2)) : inspect::read_whole("/dev/stdin");
  if (!text) {
    if (!typed) say("cannot read standard input");
    return exit_status::kTrouble;
  }
  const std::string wrong = read_value(*text, options.value);
  return wrong.empty() ? std::nullopt : std::optional<int>(arguments.refuse(wrong));
}

int run_set(const Words& given) {
  KeyCommand command(kSet, WorldOptions::Prints::nothing);
  SetOptions options;
  declare(command.arguments(), options);
  if (const auto done = command.read_line(given)) return *done;
  std::string key;
  if (const auto wrong = command.read_key(1, key)) return *wrong;
  if (const auto wrong = read_value_of(command, options)) return *wrong;
  if (const auto wrong = command.open(KeyCommand::Does::change)) return *wrong;
  if (!options.force && command.may_be_held(key)) return exit_status::kNo;
  int forcible = 0;
  const Stored& value = options.value;
  const int code = holdfast_store(command.dict(), options.op(), key.data(), key.size(), value.type, value.bytes.data(),
                                  value.bytes.size(), value.number, options.exptime, options.flags, &forcible);
  if (code == HOLDFAST_EXISTS) return command.no("there is a value under " + quote(key));
  if (code == HOLDFAST_NOT_FOUND) return command.no("there is no key " + quote(key));
  if (code != HOLDFAST_OK) return command.fail(code);
  if (forcible != 0) say("other values were removed to make room");
  return exit_status::kYes;
}

int run_del(const Words& given) {
  KeyCommand command(kDel, WorldOptions::Prints::nothing);
  bool force = false;
  command.arguments().add_flag("-f,--force", force, "Also end locks, and say nothing of keys that are not there");
  command.arguments().expect_words(2, HOLDFAST_KEY_MAX, {"NAME", "KEY"});
  if (const auto done = command.begin(given, KeyCommand::Does::change)) return *done;
  int status = exit_status::kYes;
  for (std::size_t i = 1; i < command.arguments().words().size(); ++i) {
    std::string key;
    if (const auto wrong = command.read_key(i, key)) return *wrong;
    double seconds = 0;
    const bool is_there = holdfast_ttl(command.dict(), key.data(), key.size(), &seconds) != HOLDFAST_NOT_FOUND;
    if (!force && !is_there) {
      status = command.no("there is no key " + quote(key));
      continue;
    }
    if (!force && command.may_be_held(key)) {
      status = exit_status::kNo;
      continue;
    }
    if (const int code = holdfast_delete(command.dict(), key.data(), key.size()); code != HOLDFAST_OK)
      return command.fail(code);
  }
  return status;
}

int run_incr(const Words& given) {
  KeyCommand command(kIncr, WorldOptions::Prints::something);
  std::optional<double> initial;
  double exptime = 0;
  command.arguments().add_value("--init", "N", "What a missing key counts as",
                                [&](const std::string& text) { return read_number(text, initial.emplace()); });
  command.arguments().add_value("--init-ttl", "SECONDS", "How long a key lives that this makes; default: without end",
                                [&](const std::string& text) { return read_seconds(text, exptime); });
  command.arguments().expect_words(2, 3, {"NAME", "KEY", "BY"});
  if (const auto done = command.read_line(given)) return *done;
  double by = 1;
  const bool has_by = command.arguments().words().size() > 2;
  if (const std::string wrong = has_by ? read_number(command.arguments().word(2), by) : ""; !wrong.empty())
    return command.arguments().refuse(wrong);
  std::string key;
  if (const auto wrong = command.read_key(1, key)) return *wrong;
  if (const auto wrong = command.open(KeyCommand::Does::change)) return *wrong;
  double sum = 0;
  const int code = holdfast_incr(command.dict(), key.data(), key.size(), by, initial ? 1 : 0, initial.value_or(0),
                                 exptime, &sum, nullptr);
  if (code == HOLDFAST_NOT_FOUND) return command.no("there is no key " + quote(key));
  if (code == HOLDFAST_NOT_A_NUMBER) {
    say("the value of {} is not a number", quote(key));
    return exit_status::kTrouble;
  }
  if (code != HOLDFAST_OK) return command.fail(code);
  if (!command.world().json()) {
    print(inspect::number_in_words(sum) + "\n");
    return exit_status::kYes;
  }
  inspect::Json json;
  inspect::add_text(json, "dictionary", command.name());
  inspect::add_text(json, "key", key);
  json["value"] = sum;
  print_json(json, command.world().output());
  return exit_status::kYes;
}

}  // namespace

}  // namespace holdfast::cli

// `holdfast set`, `holdfast del` and `holdfast incr` change values.
#include <fmt/format.h>

#include <algorithm>
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

std::string read_number(const std::string& text, double& to) {
  const auto number = inspect::number_of(text);
  // A counter that becomes nan or infinite can never become finite again, and JSON cannot represent it.
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

/// Converts the text to a value of the requested type. Returns an error message, or an empty string on success.
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

/// The options that create a missing dictionary.
class Creation {
 public:
  explicit Creation(Arguments& arguments) : arguments_(arguments) {
    arguments.add_flag("--create", wanted_, "Create the dictionary if it is missing");
    arguments.add_value("--size", "SIZE", "With --create: the size of a new dictionary, such as 1m; default: 8m",
                        read_size, options_.size);
    arguments.add_flag("--persist", persist_,
                       "With --create: never replace the dictionary, even if opened with another size");
  }

  /// Opens or creates the dictionary. Returns null if it is missing and the command would store nothing in it. Never
  /// creates a dictionary that is too small for the key and a value of `size` bytes.
  holdfast_dict* open(KeyCommand& command, const std::string& key, std::size_t size, bool stores) {
    constexpr std::size_t kOrdinaryKey = 256;  // holdfast.h: `largest` is for keys of up to this size
    if (!wanted_) return command.open(KeyCommand::Does::change);
    options_.persist = persist_ ? HOLDFAST_PERSISTENT : HOLDFAST_KEPT;
    options_.largest = size + std::max(key.size(), kOrdinaryKey) - kOrdinaryKey;
    return command.open_or_create(options_, stores);
  }

  /// Checks the combination of options. Call this after the command line has been read.
  void check() const {
    if (wanted_) return;
    if (options_.size != 0) arguments_.refuse("--size needs --create");
    if (persist_) arguments_.refuse("--persist needs --create");
  }

 private:
  const Arguments& arguments_;
  holdfast_options options_{};
  bool wanted_ = false;
  bool persist_ = false;
};

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
  arguments.add_value("-t,--type", "TYPE", "Store a string (default), number or boolean", read_type,
                      options.value.type);
  arguments.add_value("--exptime", "SECONDS", "Expire the value after SECONDS; default: never", read_seconds,
                      options.exptime);
  arguments.add_number("--flags", "N", "Store the number N with the value", options.flags,
                       {.what = "flags", .most = std::numeric_limits<std::uint32_t>::max()});
  arguments.add_flag("-a,--add", options.add, "Store only if the key has no value");
  arguments.add_flag("-r,--replace", options.replace, "Store only if the key has a value");
  arguments.add_flag("--safe", options.safe, "Fail instead of evicting other values to make room");
  arguments.add_flag("--stdin", options.from_input, "Read the value from standard input");
  arguments.add_flag("-f,--force", options.force, "Store even if KEY is a held lock, which ends the lock");
}

/// Reads the value from the command line or from standard input.
void read_value_of(const Arguments& arguments, const KeyCommand& command, SetOptions& options) {
  const bool typed = arguments.words().size() == 3;
  if (typed == options.from_input) arguments.refuse("expected either VALUE or --stdin");
  if (options.replace && (options.add || options.safe))
    arguments.refuse("--replace cannot be combined with --add or --safe");
  const auto text = typed ? command.plain(arguments.word(2)) : inspect::read_whole("/dev/stdin");
  if (!text) fail("cannot read standard input");
  if (const std::string wrong = read_value(*text, options.value); !wrong.empty()) arguments.refuse(wrong);
}

int run_set(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  SetOptions options;
  declare(arguments, options);
  Creation creation(arguments);
  arguments.parse(2, 3, {"NAME", "KEY", "VALUE"});
  creation.check();
  const std::string key = command.key();
  read_value_of(arguments, command, options);
  holdfast_dict* const dict = creation.open(command, key, options.value.bytes.size(), !options.replace);
  if (dict == nullptr) return say_no("there is no key {}", quote_key(key));
  if (!options.force && command.may_be_held(key)) return exit_status::kNo;
  int forcible = 0;
  const Stored& value = options.value;
  const int code = holdfast_store(dict, options.op(), key.data(), key.size(), value.type, value.bytes.data(),
                                  value.bytes.size(), value.number, options.exptime, options.flags, &forcible);
  if (code == HOLDFAST_EXISTS) return say_no("key {} already exists", quote_key(key));
  if (code == HOLDFAST_NOT_FOUND) return say_no("there is no key {}", quote_key(key));
  if (code != HOLDFAST_OK) fail_by(code);
  if (forcible != 0) say("other values were evicted to make room");
  return exit_status::kYes;
}

int run_del(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  bool force = false;
  arguments.add_flag("-f,--force", force, "Also delete held locks, and ignore missing keys");
  arguments.parse(2, HOLDFAST_KEY_MAX, {"NAME", "KEY"});
  holdfast_dict* const dict = command.open(KeyCommand::Does::change);
  int status = exit_status::kYes;
  for (std::size_t i = 1; i < arguments.words().size(); ++i) {
    const std::string key = command.key(i);
    double seconds = 0;
    const bool is_there = holdfast_ttl(dict, key.data(), key.size(), &seconds) != HOLDFAST_NOT_FOUND;
    if (!force && !is_there) {
      status = say_no("there is no key {}", quote_key(key));
    } else if (!force && command.may_be_held(key)) {
      status = exit_status::kNo;
    } else if (const int code = holdfast_delete(dict, key.data(), key.size()); code != HOLDFAST_OK) {
      fail_by(code);
    }
  }
  return status;
}

int run_incr(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::something);
  std::optional<double> initial;
  double exptime = 0;
  arguments.add_value("--init", "N", "Create a missing key with the value N before adding",
                      [&](const std::string& text) { return read_number(text, initial.emplace()); });
  arguments.add_value("--init-ttl", "SECONDS", "With --init: expire a created key after SECONDS; default: never",
                      read_seconds, exptime);
  Creation creation(arguments);
  arguments.parse(2, 3, {"NAME", "KEY", "BY"});
  creation.check();
  double by = 1;
  const bool has_by = arguments.words().size() > 2;
  if (const std::string wrong = has_by ? read_number(arguments.word(2), by) : ""; !wrong.empty())
    arguments.refuse(wrong);
  const std::string key = command.key();
  holdfast_dict* const dict = creation.open(command, key, sizeof(double), initial.has_value());
  if (dict == nullptr) return say_no("there is no key {}", quote_key(key));
  double sum = 0;
  const int code =
      holdfast_incr(dict, key.data(), key.size(), by, initial ? 1 : 0, initial.value_or(0), exptime, &sum, nullptr);
  if (code == HOLDFAST_NOT_FOUND) return say_no("there is no key {}", quote_key(key));
  if (code == HOLDFAST_NOT_A_NUMBER) fail("the value of {} is not a number", quote_key(key));
  if (code != HOLDFAST_OK) fail_by(code);
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

const Subcommand kSet{"set",
                      "Store a value",
                      "NAME KEY VALUE",
                      "Store a value.",
                      R"(With --stdin, omit VALUE: it is read from standard input. A dictionary that --create
creates stays until "holdfast rm" or a reboot. Without --persist, a program that opens it with
another size replaces it if no other process is using it.

Exit status: 0 success; 1 the key has a value (--add) or has none (--replace), or is a held
lock; 2 error.)",
                      run_set};

const Subcommand kDel{"del",
                      "Delete keys",
                      "NAME KEY...",
                      "Delete keys.",
                      R"(Exit status: 0 success; 1 a key did not exist, or is a held lock; 2 error.)",
                      run_del};

const Subcommand kIncr{"incr",
                       "Increment a number",
                       "NAME KEY [BY]",
                       "Add BY (default: 1) to a number, and print the sum.",
                       R"(A dictionary that --create creates stays until "holdfast rm" or a reboot. Without --persist, a
program that opens it with another size replaces it if no other process is using it.

Exit status: 0 success; 1 no such key and no --init; 2 error.)",
                       run_incr};

}  // namespace holdfast::cli

// `holdfast get`, `holdfast keys` and `holdfast ttl` read values and keys.
#include <fmt/format.h>

#include <cstring>

#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "inspect/packed.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

struct Value {
  int code = HOLDFAST_OK;
  holdfast_value value{};
  std::string bytes;
};

Value get(holdfast_dict* dict, const std::string& key) {
  Value got;
  constexpr std::size_t kRoom = 4096;
  got.bytes.resize(kRoom);
  do {
    got.bytes.resize(std::max(got.bytes.size(), got.value.size));
    got.value.data = got.bytes.data();
    got.value.capacity = got.bytes.size();
    got.code = holdfast_get(dict, key.data(), key.size(), &got.value);
  } while (got.code == HOLDFAST_BUFFER);
  got.bytes.resize(got.value.type == HOLDFAST_STRING || got.value.type == HOLDFAST_TABLE ? got.value.size : 0);
  return got;
}

const char* type_in_words(int type) {
  switch (type) {
    case HOLDFAST_BOOLEAN:
      return "boolean";
    case HOLDFAST_NUMBER:
      return "number";
    case HOLDFAST_STRING:
      return "string";
    case HOLDFAST_TABLE:
      return "table";
    default:
      return "nil";
  }
}

/// Escapes unprintable bytes, except newlines and tabs.
std::string for_terminal(const std::string& text) {
  std::string safe;
  std::size_t from = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] != '\n' && text[at] != '\t') continue;
    safe += inspect::escaped(std::string_view(text).substr(from, at - from));
    if (at < text.size()) safe += text[at];
    from = at + 1;
  }
  return safe;
}

std::string in_words(const Value& got, bool safe) {
  if (got.value.type == HOLDFAST_BOOLEAN) return got.value.number != 0 ? "true" : "false";
  if (got.value.type == HOLDFAST_NUMBER) return inspect::number_in_words(got.value.number);
  return safe ? for_terminal(got.bytes) : got.bytes;
}

inspect::Json seconds_left(holdfast_dict* dict, const std::string& key) {
  double seconds = 0;
  const int code = holdfast_ttl(dict, key.data(), key.size(), &seconds);
  return code == HOLDFAST_OK && seconds != 0 ? inspect::Json(seconds) : inspect::Json();
}

inspect::Json to_json(const KeyCommand& command, const std::string& key, const Value& got) {
  inspect::Json json;
  inspect::add_text(json, "dictionary", command.name());
  inspect::add_text(json, "key", key);
  json["type"] = type_in_words(got.value.type);
  if (got.value.type == HOLDFAST_BOOLEAN)
    json["value"] = got.value.number != 0;
  else if (got.value.type == HOLDFAST_NUMBER)
    json["value"] = got.value.number;
  else
    inspect::add_text(json, "value", got.bytes);
  json["flags"] = got.value.flags;
  json["ttl"] = seconds_left(command.dict(), key);
  return json;
}

[[noreturn]] void refuse_list(holdfast_dict* dict, const std::string& key) {
  std::uint32_t length = 0;
  holdfast_llen(dict, key.data(), key.size(), &length);
  fail("cannot print {}: it is a list of {}; use lpop or rpop in Lua", quote_key(key),
       inspect::counted(length, "element", "elements"));
}

int run_get(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::something);
  bool bare = false;
  bool raw = false;
  arguments.add_flag("-n,--no-newline", bare, "Print no newline after the value");
  arguments.add_flag("-r,--raw", raw, "Print the stored bytes unchanged, even on a terminal; also print Lua tables");
  arguments.parse(2, 2, {"NAME", "KEY"});
  const std::string key = command.key();
  const Value got = get(command.open(KeyCommand::Does::look), key);
  if (got.code == HOLDFAST_NOT_FOUND) return say_no("there is no key {}", quote_key(key));
  if (got.code == HOLDFAST_IS_A_LIST) refuse_list(command.dict(), key);
  if (got.code != HOLDFAST_OK) fail_by(got.code);
  const Output output = command.world().output();
  if (command.world().json()) {
    print_json(to_json(command, key, got), output);
  } else if (got.value.type == HOLDFAST_TABLE && !raw) {
    fail("cannot print {}: it is a Lua table; use --raw to print its bytes", quote_key(key));
  } else {
    print(in_words(got, output.columns && !raw) + (bare ? "" : "\n"));
  }
  return exit_status::kYes;
}

int run_keys(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::something);
  std::string typed;
  std::uint64_t left = ~std::uint64_t{0};
  bool null = false;
  arguments.add_value("--prefix", "TEXT", "Print only keys that begin with TEXT", typed);
  arguments.add_number("--max", "N", "Print at most N keys; default: all", left, {});
  arguments.add_flag("-0,--null", null, "Print keys unchanged, each followed by a zero byte");
  arguments.parse(1, 1, {"NAME"});
  const std::string prefix = command.plain(typed);
  holdfast_dict* const dict = command.open(KeyCommand::Does::look);
  inspect::Json json = inspect::Json::array();
  std::uint64_t cursor = 0;
  do {
    constexpr std::uint32_t kAtOnce = 1000;
    std::vector<std::string> keys;
    const int code = inspect::unpack(keys, [&](holdfast_value* packed, std::uint32_t* count) {
      return holdfast_scan(dict, &cursor, kAtOnce, prefix.data(), prefix.size(), packed, count);
    });
    if (code != HOLDFAST_OK) fail_by(code);
    keys.resize(std::min<std::uint64_t>(keys.size(), left));
    left -= keys.size();
    std::string lines;
    for (const std::string& key : keys) {
      if (command.world().json())
        inspect::add_text(json.emplace_back(), "key", key);
      else
        lines += null ? key + '\0' : inspect::escaped(key) + "\n";
    }
    print(lines);
  } while (cursor != 0 && left != 0);
  if (command.world().json()) print_json(json, command.world().output());
  return exit_status::kYes;
}

int run_ttl(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::something);
  bool force = false;
  arguments.add_flag("-f,--force", force, "With SECONDS: change KEY even if it is a held lock, which ends the lock");
  arguments.parse(2, 3, {"NAME", "KEY", "SECONDS"});
  const bool sets = arguments.words().size() > 2;
  double wanted = 0;
  if (const std::string wrong = sets ? read_seconds(arguments.word(2), wanted) : ""; !wrong.empty())
    arguments.refuse(wrong);
  const std::string key = command.key();
  holdfast_dict* const dict = command.open(sets ? KeyCommand::Does::change : KeyCommand::Does::look);
  if (sets && !force && command.may_be_held(key)) return exit_status::kNo;
  double seconds = 0;
  const int code = sets ? holdfast_expire(dict, key.data(), key.size(), wanted)
                        : holdfast_ttl(dict, key.data(), key.size(), &seconds);
  if (code == HOLDFAST_NOT_FOUND || seconds < 0) return say_no("there is no key {}", quote_key(key));
  if (code != HOLDFAST_OK) fail_by(code);
  if (sets) return exit_status::kYes;
  if (command.world().json())
    print_json(inspect::Json{{"ttl", seconds != 0 ? inspect::Json(seconds) : inspect::Json()}},
               command.world().output());
  else
    print(seconds != 0 ? fmt::format("{:.3f}\n", seconds) : "never\n");
  return exit_status::kYes;
}

}  // namespace

const Subcommand kGet{"get",
                      "Print the value of a key",
                      "NAME KEY",
                      "Print the value of a key.",
                      R"(A string is printed unchanged, followed by a newline. On a terminal, unprintable bytes are
printed as \xHH. A number is printed in full, a boolean as true or false, and a held lock as
true.

Exit status: 0 success; 1 no such key; 2 error.)",
                      run_get};

const Subcommand kKeys{"keys",
                       "List the keys of a dictionary",
                       "NAME",
                       "List the keys of a dictionary, in no particular order.",
                       R"(Unprintable bytes are printed as \xHH, and a backslash as \\. A key that exists during the
whole listing is printed once.)",
                       run_keys};

const Subcommand kTtl{"ttl",
                      "Print or set a key's time to live",
                      "NAME KEY [SECONDS]",
                      "Print or set a key's time to live.",
                      R"(Prints the seconds left, or "never". With SECONDS, sets the time to live; 0 means never.

Exit status: 0 success; 1 no such key, or with SECONDS the key is a held lock; 2 error.)",
                      run_ttl};

}  // namespace holdfast::cli

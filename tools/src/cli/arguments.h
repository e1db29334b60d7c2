// Reads the command line of one command. All commands use the same rules.
//
// Options and words may come in any order. An option is "-n VALUE", "-nVALUE", "--name VALUE" or "--name=VALUE". An
// optional value follows "=". A flag is "-f" or "--flag"; "-fg" is two flags, as in getopt(3). Only `flock` accepts
// abbreviated names. If an option is given twice, its reader is called twice, and most readers keep the last value. A
// negative number counts as a word, and so does everything after "--". `run`, `lock` and `flock` pass words on to
// another program: these words are never options.
//
// We do not use CLI11: it took half of the command's compile time, and working around its rules for "--", "[a,b]" and
// "--flag=1" took more code than this parser.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"

namespace holdfast::cli {

class Arguments {
 public:
  /// `given`: the words after the command's name.
  Arguments(const Subcommand& command, Words given);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// `names`: "-w,--wait,--timeout", short names first.
  void add_flag(const char* names, bool& flag, const char* text);
  /// Reads the value of an option. Returns an error message, or an empty string if the value is valid.
  using Read = std::function<std::string(const std::string&)>;
  void add_value(const char* names, const char* type, const char* text, Read read);
  void add_value(const char* names, const char* type, const char* text, std::string& value);
  /// Adds a long option whose value is optional. If the value is missing, `otherwise` is read instead.
  void add_optional(const char* name, const char* type, const char* otherwise, const char* text, Read read);
  template <class Value>
  void add_value(const char* names, const char* type, const char* text,
                 std::string (*read)(const std::string& given, Value& to), Value& to) {
    add_value(names, type, text, [read, &to](const std::string& given) { return read(given, to); });
  }
  /// The accepted range of an unsigned integer.
  struct Range {
    const char* what = "number";
    std::uint64_t least = 0;
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const char* wrong = nullptr;  // the message for other numbers; null: a message that names these limits
  };
  template <class Number>
  void add_number(const char* names, const char* type, const char* text, Number& to, Range range) {
    add_value(names, type, text, [range, &to](const std::string& given) {
      std::uint64_t number = 0;
      std::string wrong = read_number(given, range, number);
      if (wrong.empty()) to = static_cast<Number>(number);
      return wrong;
    });
  }
  /// Adds an option whose value is the path of a file, which must not be empty.
  void add_file(const char* names, const char* text, std::string& path);
  /// Adds an option that prints the version and exits.
  void add_version(const char* names, const std::string& version);

  /// Finds the words to pass on to another program, which usually follow "--". If there is no "--", they begin with the
  /// second word, unless an option separates it from the first. There are three cases in which they begin with the
  /// second word in spite of a later "--": more than `names` words precede the "--", `is_program` accepts the second
  /// word, or an unknown option follows it. After one of the options in `unless`, only "--" counts.
  void pass_on_from_dashes(std::vector<const char*> unless, std::size_t names,
                           bool (*is_program)(const std::string& word)) {
    passes_on_ = PassesOn::from_dashes;
    unless_ = std::move(unless);
    is_program_ = is_program;
    names_ = names;
  }
  /// Passes the first word and everything after it on to another program. A "--" may precede the first word.
  void pass_on_from_first_word() { passes_on_ = PassesOn::from_first_word; }

  /// Accepts abbreviations of long names if they are unambiguous.
  void allow_abbreviations() { abbreviates_ = true; }

  /// Reads the command line. Ends the command after --help or an error. Accepts `least` to `most` words; `names` are
  /// their names in messages.
  void parse(std::size_t least = 0, std::size_t most = 0, const std::vector<const char*>& names = {});
  const Words& given() const noexcept { return given_; }
  const Words& words() const noexcept { return words_; }
  /// Returns the word with this number, or an empty string if it was not given.
  std::string word(std::size_t number) const { return number < words_.size() ? words_[number] : std::string(); }
  const Words& passed_on() const noexcept { return passed_on_; }
  /// Returns whether "--" was given.
  bool has_dashes() const noexcept { return has_dashes_; }
  /// Returns whether there are words to pass on, or at least a "--" was given.
  bool passes_on() const noexcept { return has_dashes_ || !passed_on_.empty(); }

  /// Prints the reason and how to get help, and ends the command.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  enum class PassesOn { nothing, from_dashes, from_first_word };
  struct Option {
    std::vector<std::string> names;
    const char* type;  // the name of its value in the help; null for a flag
    const char* text;
    Read read;
    std::function<std::string()> shown = {};  // for an option that prints a text and exits: the text
    const char* otherwise = nullptr;          // the value if none is given; null: a value is required
    std::string name() const;
    bool needs_value() const { return type != nullptr && otherwise == nullptr; }
  };
  using Word = Words::const_iterator;

  /// Returns the end of the words that this command itself reads; the words to pass on begin there.
  Word end_of_own_words() const;
  /// Returns whether the option's value is the next word.
  bool takes_next_word(const std::string& word) const;
  const Option* find(std::string_view name) const;
  const Option* find_abbreviated(std::string_view name) const;
  bool is_option(const std::string& word) const;
  void read_option(Word& word) const;
  void read_long(Word& word) const;
  void read_short(Word& word) const;
  void read_next(const Option& option, Word& word) const;
  void take(const Option& option, const std::string& value) const;
  [[noreturn]] void refuse_unknown(const std::string& word) const;
  static std::string read_number(const std::string& given, const Range& range, std::uint64_t& number);
  std::string full_name() const;
  std::string help() const;

  const Subcommand& command_;
  const Words given_;
  std::vector<Option> options_;
  PassesOn passes_on_ = PassesOn::nothing;
  bool abbreviates_ = false;
  std::vector<const char*> unless_;
  bool (*is_program_)(const std::string& word) = nullptr;
  std::size_t names_ = 0;
  Words words_;
  Words passed_on_;
  bool has_dashes_ = false;
};

/// Runs a command with the words after its name. Returns the exit status. If the command throws an Exit, prints its
/// message.
int run_command(const Subcommand& command, Words given);

/// Returns a line of help: a name, and its description in the second column.
std::string help_line(std::string_view name, std::string_view text);

}  // namespace holdfast::cli

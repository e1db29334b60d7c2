// The command line of one command, by one rule for all of them.
//
// Options and words stand in any order. An option is "-n VALUE", "-nVALUE", "--name VALUE" or "--name=VALUE", a flag
// "-f" or "--flag", and "-fg" is two flags, as getopt(3) has them; names are not abbreviated, the last of a value that
// is given twice counts, and a negative number is a word. What follows "--" are words. `run` and `lock` pass words on
// to another program: nothing in those is an option.
//
// A library was tried: CLI11 took half of the time that the command takes to compile, and what its rules do with "--",
// "[a,b]" and "--flag=1" took more lines to undo than these rules take.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace holdfast::cli {

class Arguments {
 public:
  explicit Arguments(const Subcommand& command);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// `names`: "-w,--wait,--timeout", the short ones first.
  void add_flag(const char* names, bool& flag, const char* text);
  /// `read`: takes the value; returns what is wrong with it, or nothing.
  using Read = std::function<std::string(const std::string&)>;
  void add_value(const char* names, const char* type, const char* text, Read read);
  void add_value(const char* names, const char* type, const char* text, std::string& value);
  /// A FILE, which an empty path is not.
  void add_file(const char* names, const char* text, std::string& path);
  /// An option that prints the version and ends.
  void add_version(const char* names, const std::string& version);

  /// Sets how many words there may be, and what they are called.
  void expect_words(std::size_t least, std::size_t most, std::vector<const char*> names);
  /// Words that follow "--" are for another program.
  void pass_on_from_dashes() { passes_on_ = PassesOn::from_dashes; }
  /// The first word and all that follow are for another program; "--" may stand before them.
  void pass_on_from_first_word() { passes_on_ = PassesOn::from_first_word; }

  /// Returns nothing if all is well. Else the exit status: help was printed, or what is wrong.
  std::optional<int> parse(const Words& words);
  const Words& words() const noexcept { return words_; }
  /// The word of that number; empty if it was not given.
  std::string word(std::size_t number) const { return number < words_.size() ? words_[number] : std::string(); }
  const Words& passed_on() const noexcept { return passed_on_; }
  /// Whether "--" was given.
  bool has_dashes() const noexcept { return has_dashes_; }

  /// Says what is wrong, and where help is; returns the exit status.
  int refuse(const std::string& reason) const;

 private:
  enum class PassesOn { nothing, from_dashes, from_first_word };
  struct Option {
    std::vector<std::string> names;
    const char* type;  // of its value; null: a flag
    const char* text;
    Read read;
    std::function<std::string()> shown = {};  // for one that prints this and ends
    std::string name() const;
  };
  using Word = Words::const_iterator;

  const Option* find(std::string_view name) const;
  bool is_option(const std::string& word) const;
  std::optional<int> read_option(Word& word, Word end) const;
  std::optional<int> read_long(Word& word, Word end) const;
  std::optional<int> read_short(Word& word, Word end) const;
  std::optional<int> read_next(const Option& option, Word& word, Word end) const;
  std::optional<int> take(const Option& option, const std::string& value) const;
  int refuse_unknown(const std::string& word) const;
  std::string count_words() const;
  std::string full_name() const;
  std::string help() const;

  const Subcommand& command_;
  std::vector<Option> options_;
  PassesOn passes_on_ = PassesOn::nothing;
  std::size_t least_ = 0;
  std::size_t most_ = 0;
  std::vector<const char*> names_;
  Words words_;
  Words passed_on_;
  bool has_dashes_ = false;
};

/// A line of help: a name, and its text in a column.
std::string help_line(std::string_view name, std::string_view text);

}  // namespace holdfast::cli

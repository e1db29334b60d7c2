// The command line of one command. CLI11 is behind it: it takes the compiler longer than all of a command.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// As of grep: 1 is the answer no, 2 is trouble, a wrong command line included.
namespace exit_status {
inline constexpr int kYes = 0;
inline constexpr int kNo = 1;
inline constexpr int kTrouble = 2;
}  // namespace exit_status

struct CommandTexts {
  const char* name;         // "ls"
  const char* usage;        // what follows "holdfast ls [OPTIONS]"
  const char* description;  // a sentence
  const char* footer;       // what else there is to say
};

class Arguments {
 public:
  explicit Arguments(const CommandTexts& texts);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void add_flag(const char* names, bool& flag, const char* text);
  /// `read`: takes the value; gives what is wrong with it, or nothing.
  using Read = std::function<std::string(const std::string&)>;
  void add_value(const char* names, const char* type, const char* text, Read read);
  void add_value(const char* names, const char* type, const char* text, std::string& value);
  /// A FILE, which an empty path is not.
  void add_file(const char* names, const char* text, std::string& path);

  /// How many words there are to be, and what they are called.
  void expect_words(std::size_t least, std::size_t most, std::vector<const char*> names);

  /// Nothing if all is well: then words() are what is neither an option nor a value. Else the exit status: help was
  /// printed, or what is wrong.
  std::optional<int> parse(const std::vector<std::string>& arguments);
  const std::vector<std::string>& words() const noexcept { return words_; }
  /// The word of that number; empty if it was not given.
  std::string word(std::size_t number) const { return number < words_.size() ? words_[number] : std::string(); }

  /// Says what is wrong, and where help is; gives the exit status.
  int refuse(const std::string& reason) const;

 private:
  struct Parser;
  std::string count_words() const;

  CommandTexts texts_;
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> words_;
  std::size_t least_ = 0;
  std::size_t most_ = 0;
  std::vector<const char*> names_;
};

}  // namespace holdfast::cli

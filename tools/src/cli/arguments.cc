#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "base/name.h"
#include "cli/message.h"
#include "cli/output.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr std::size_t kColumn = 30;  // where the descriptions of options begin

std::vector<std::string> split_names(const char* names) {
  std::vector<std::string> split;
  for (std::string_view rest = names; !rest.empty();) {
    split.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), split.back().size() + 1));
  }
  return split;
}

}  // namespace

std::string help_line(std::string_view name, std::string_view text) {
  std::string line = fmt::format("  {}", name);
  line += line.size() < kColumn ? std::string(kColumn - line.size(), ' ') : "\n" + std::string(kColumn, ' ');
  for (const char c : text) line += c == '\n' ? "\n" + std::string(kColumn, ' ') : std::string(1, c);
  return line + "\n";
}

Arguments::Arguments(const Subcommand& command, Words given) : command_(command), given_(std::move(given)) {
  options_.push_back({{"-h", "--help"}, nullptr, "Print this help and exit", {}, [this] { return help(); }});
}

void Arguments::add_flag(const char* names, bool& flag, const char* text) {
  options_.push_back({split_names(names), nullptr, text, [&flag](const std::string&) {
                        flag = true;
                        return std::string();
                      }});
}

void Arguments::add_value(const char* names, const char* type, const char* text, Read read) {
  options_.push_back({split_names(names), type, text, std::move(read)});
}

void Arguments::add_value(const char* names, const char* type, const char* text, std::string& value) {
  add_value(names, type, text, [&value](const std::string& given) {
    value = given;
    return std::string();
  });
}

void Arguments::add_file(const char* names, const char* text, std::string& path) {
  add_value(names, "FILE", text, [&path](const std::string& given) {
    path = given;
    return std::string(given.empty() ? "no FILE was given" : "");
  });
}

void Arguments::add_optional(const char* name, const char* type, const char* otherwise, const char* text, Read read) {
  options_.push_back({split_names(name), type, text, std::move(read), {}, otherwise});
}

void Arguments::add_version(const char* names, const std::string& version) {
  const auto shown = [line = fmt::format("{} {}\n", command_.program, version)] { return line; };
  options_.push_back({split_names(names), nullptr, "Print the version and exit", {}, shown});
}

std::string Arguments::read_number(const std::string& given, const Range& range, std::uint64_t& number) {
  const auto read = inspect::whole_number_of(given);
  number = read.value_or(0);
  if (read && number >= range.least && number <= range.most) return {};
  if (range.wrong != nullptr) return fmt::format(fmt::runtime(range.wrong), quote(given));
  const bool is_open = range.most == std::numeric_limits<std::uint64_t>::max();
  return fmt::format(
      "bad {} {}: expected {}", range.what, quote(given),
      is_open ? fmt::format("{} or more", range.least) : fmt::format("{} to {}", range.least, range.most));
}

void Arguments::parse(std::size_t least, std::size_t most, const std::vector<const char*>& names) {
  auto word = given_.begin();
  for (const auto end = end_of_own_words(); word != end; ++word) {
    if (is_option(*word))
      read_option(word);
    else if (passes_on_ == PassesOn::from_first_word)
      break;
    else
      words_.push_back(*word);
  }
  has_dashes_ = word != given_.end() && *word == "--";
  if (has_dashes_) ++word;
  Words& rest = passes_on_ == PassesOn::nothing ? words_ : passed_on_;
  rest.insert(rest.end(), word, given_.end());
  if (passes_on_ != PassesOn::nothing) return;
  if (words_.size() < least) refuse(fmt::format("no {} was given", names[words_.size()]));
  if (words_.size() > most) refuse(fmt::format("unexpected {}", quote(words_[most])));
}

Arguments::Word Arguments::end_of_own_words() const {
  const auto dashes = std::find(given_.begin(), given_.end(), "--");
  if (passes_on_ != PassesOn::from_dashes) return dashes;
  std::vector<Word> words;
  const auto follow = [&] { return words.size() >= 2 && words[1] == words[0] + 1; };
  for (auto word = given_.begin(); word != dashes; ++word) {
    if (!is_option(*word)) {
      words.push_back(word);
      if (words.size() > names_ && follow()) return words[1];
      continue;
    }
    const std::string name = word->starts_with("--") ? word->substr(0, word->find('=')) : word->substr(0, 2);
    const Option* const option = find(name);
    if (follow() && (option == nullptr || is_program_(*words[1]))) return words[1];
    const auto is_this = [&](const char* one) { return option != nullptr && option == find(one); };
    if (std::any_of(unless_.begin(), unless_.end(), is_this)) return dashes;
    if (takes_next_word(*word) && word + 1 != dashes) ++word;
  }
  const bool has_own_dashes = dashes != given_.end() && words.size() <= names_;
  if (!follow() || (has_own_dashes && !is_program_(*words[1]))) return dashes;
  return words[1];
}

bool Arguments::takes_next_word(const std::string& word) const {
  if (word.starts_with("--")) {
    const Option* const option = find(word);
    return option != nullptr && option->needs_value();
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    const Option* const option = find(std::string{'-', word[i]});
    if (option != nullptr && option->type != nullptr) return i + 1 == word.size();
  }
  return false;
}

std::string Arguments::Option::name() const {
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found != names.end() ? *found : names.front();
}

const Arguments::Option* Arguments::find(std::string_view name) const {
  const auto has_name = [&](const Option& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  };
  const auto found = std::find_if(options_.begin(), options_.end(), has_name);
  if (found != options_.end()) return &*found;
  return abbreviates_ && name.size() > 2 ? find_abbreviated(name) : nullptr;
}

const Arguments::Option* Arguments::find_abbreviated(std::string_view name) const {
  const Option* only = nullptr;
  for (const Option& option : options_) {
    const bool fits = std::any_of(option.names.begin(), option.names.end(),
                                  [&](const std::string& full) { return full.starts_with(name); });
    if (fits && only != nullptr) return nullptr;
    if (fits) only = &option;
  }
  return only;
}

bool Arguments::is_option(const std::string& word) const {
  if (word.size() < 2 || word.front() != '-') return false;
  return passes_on_ != PassesOn::nothing || find(word) != nullptr || !inspect::number_of(word);
}

/// Reads an option, and moves `word` to the option's last word.
void Arguments::read_option(Word& word) const { word->starts_with("--") ? read_long(word) : read_short(word); }

void Arguments::read_long(Word& word) const {
  const std::size_t equals = word->find('=');
  const std::string name = word->substr(0, equals);
  const Option* const option = find(name);
  if (option == nullptr) refuse_unknown(*word);
  if (equals == std::string::npos && option->needs_value()) return read_next(*option, word);
  if (equals == std::string::npos) return take(*option, option->otherwise != nullptr ? option->otherwise : "");
  if (option->type != nullptr) return take(*option, word->substr(equals + 1));
  refuse(fmt::format("unexpected {}: {} takes no value", quote(*word), name));
}

void Arguments::read_short(Word& word) const {
  const std::string& letters = *word;
  for (std::size_t i = 1; i < letters.size(); ++i) {
    const Option* const option = find(std::string{'-', letters[i]});
    if (option == nullptr) refuse_unknown(letters);
    const std::string rest = letters.substr(i + 1);
    if (option->type != nullptr) return rest.empty() ? read_next(*option, word) : take(*option, rest);
    take(*option, "");
  }
}

void Arguments::read_next(const Option& option, Word& word) const {
  if (word + 1 == given_.end() || *(word + 1) == "--")
    refuse(fmt::format("{}: no {} was given", option.name(), option.type));
  take(option, *++word);
}

void Arguments::take(const Option& option, const std::string& value) const {
  if (option.shown) {
    print(option.shown());
    throw Exit{exit_status::kYes};
  }
  if (const std::string wrong = option.read(value); !wrong.empty()) refuse(fmt::format("{}: {}", option.name(), wrong));
}

void Arguments::refuse_unknown(const std::string& word) const {
  std::string accepted;
  for (const Option& option : options_) accepted += (accepted.empty() ? "" : ", ") + option.name();
  refuse(fmt::format("unknown option {}: expected one of {}", quote(word), accepted));
}

std::string Arguments::full_name() const {
  return *command_.name == '\0' ? "holdfast" : fmt::format("holdfast {}", command_.name);
}

std::string Arguments::help() const {
  const char* const blank = *command_.usage != '\0' ? " " : "";
  std::string text = fmt::format("{}\nUsage: {} [OPTIONS]{}{}\n\nOptions:\n", command_.description, full_name(), blank,
                                 command_.usage);
  for (const Option& option : options_) {
    const std::string value = option.type == nullptr ? ""
                              : option.needs_value() ? fmt::format(" {}", option.type)
                                                     : fmt::format("[={}]", option.type);
    text += help_line(fmt::format("{}{}", fmt::join(option.names, ","), value), option.text);
  }
  return fmt::format("{}\n{}\n", text, command_.footer);
}

void Arguments::refuse(const std::string& reason) const {
  say_as(command_.program, fmt::format("{}\nTry \"{} --help\".", reason, full_name()));
  throw Exit{command_.usage_status};
}

int run_command(const Subcommand& command, Words given) try {
  Arguments arguments(command, std::move(given));
  return command.run(arguments);
} catch (const Exit& exit) {
  if (!exit.message.empty()) say("{}", exit.message);
  return exit.status;
} catch (const std::exception& error) {
  say("{}", error.what());
  return exit_status::kTrouble;
}

}  // namespace holdfast::cli

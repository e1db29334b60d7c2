#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/name.h"
#include "cli/command_words.h"
#include "cli/message.h"
#include "cli/print_help.h"
#include "cli/unknown_option.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const CommandTexts& texts) : texts_(texts) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return fmt::format("Usage: holdfast {} [OPTIONS] {}\n", texts_.name, texts_.usage);
  }

 private:
  CommandTexts texts_;
};

}  // namespace

struct Arguments::Parser {
  CLI::App app;
};

Arguments::Arguments(const CommandTexts& texts) : texts_(texts), parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  app.description(texts.description);
  app.name(fmt::format("holdfast {}", texts.name));
  app.formatter(std::make_shared<HelpFormatter>(texts));
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.footer(texts.footer);
  app.allow_extras();
}

Arguments::~Arguments() = default;

void Arguments::add_flag(const char* names, bool& flag, const char* text) {
  parser_->app.add_flag(names, flag, text)->disable_flag_override();
}

void Arguments::add_value(const char* names, const char* type, const char* text, Read read) {
  parser_->app
      .add_option_function<std::vector<std::string>>(
          names, [](const std::vector<std::string>&) {}, text)
      ->type_name(type)
      ->type_size(1)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)  // with it, CLI11 would take "[1,2]" for two values
      ->check([read = std::move(read)](const std::string& given) { return read(given); });
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
    return refuse_no_file(given);
  });
}

void Arguments::expect_words(std::size_t least, std::size_t most, std::vector<const char*> names) {
  least_ = least;
  most_ = most;
  names_ = std::move(names);
}

// What follows "--" are words, whatever they begin with; before it, a negative number is one.
std::optional<int> Arguments::parse(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own(arguments.begin(), dashes);
  CLI::App& app = parser_->app;
  if (const std::string wrong = split_values(app, own); !wrong.empty()) return refuse(wrong);
  std::reverse(own.begin(), own.end());  // as CLI11 takes it
  try {
    app.parse(own);
  } catch (const CLI::Success& success) {
    return print_help(app, success);
  } catch (const CLI::ParseError& error) {
    return refuse(in_words(app, error));
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word.front() == '-' && !inspect::number_of(word))
      return refuse(unknown_option(app, as_typed(arguments, word)));
    words_.push_back(word);
  }
  if (dashes != arguments.end()) words_.insert(words_.end(), dashes + 1, arguments.end());
  if (const std::string wrong = count_words(); !wrong.empty()) return refuse(wrong);
  return std::nullopt;
}

std::string Arguments::count_words() const {
  if (words_.size() < least_) return fmt::format("no {} was given", names_[words_.size()]);
  if (words_.size() > most_) return fmt::format("unexpected {}", quote(words_[most_]));
  return {};
}

int Arguments::refuse(const std::string& reason) const {
  say("{}\nTry \"holdfast {} --help\".", reason, texts_.name);
  return exit_status::kTrouble;
}

}  // namespace holdfast::cli

// The input is text: a size, a name, declarations, options of holdfast_open, or a command line. If the text is refused,
// the message must be printable. If it is accepted, the result must be what the text states.
#include <array>
#include <cstdlib>

#include "base/name.h"
#include "base/parse.h"
#include "fuzz/world_of_one.h"
#include "holdfast.h"
#include "run/run_options.h"

namespace holdfast::fuzz {
namespace {

constexpr std::uint64_t kAffordable = 1 << 16;

void require_sentence(const std::string& message) {
  require(!message.empty() && message.size() < 1000, "refused without a message, or with a very long message");
  require(quote(message, message.size()) == "\"" + message + "\"", "a message contains unprintable characters");
}

void parse_sizes(const std::string& text) {
  const auto size = parse_size(text);
  std::uint64_t bytes = 0;
  const int code = holdfast_parse_size(text.data(), text.size(), &bytes);
  require((code == HOLDFAST_OK) == static_cast<bool>(size), "the two parsers of sizes disagree");
  if (!size) return require_sentence(size.status().message);
  require(*size == bytes && *size > 0 && *size <= kSizeMax, "a size is out of range");
  const auto again = parse_size(std::to_string(*size));
  require(again && *again == *size, "a size changes when it is written in bytes and parsed again");
}

void parse_declarations(Input& input) {
  const std::string name = input.take_text(input.take<std::uint8_t>() % 16U);
  const std::string text = input.rest();
  const Status good = check_name(name);
  if (!good.ok()) require_sentence(good.message);
  auto found = find_declaration(text, name);
  if (!found) return require_sentence(found.status().message);
  require(good.ok() && found->bytes > 0, "an invalid name has a size");
  auto again = find_declaration(encode_name(name) + "=" + found->size, name);
  require(again && again->bytes == found->bytes && again->largest == found->largest,
          "a declaration changes when it is written and parsed again");
}

// Names of dictionaries and names of files are arbitrary bytes. Each name must have exactly one file, and each file
// must have exactly one name.
void encode_names(const std::string& text) {
  const Status good = check_name(text);
  if (!good.ok()) require_sentence(good.message);
  const std::string file = encode_name(text);
  require(!good.ok() || (file.size() <= kNameMax && decode_name(file) == text), "a name has the file of another name");
  require(file.find_first_of(std::string_view("/\0", 2)) == std::string::npos && !file.starts_with('.'),
          "a file's name leads outside the directory");
  const auto name = decode_name(text);
  require(!name || encode_name(*name) == text, "two files belong to one name");
  const std::string shown = quote(text, text.size());
  require(quote(shown, shown.size()) == "\"" + shown + "\"", "a name is shown with unprintable characters");
}

// Declares dictionaries in the environment, as a user does for a program. Undeclared dictionaries must not exist.
void attach_declared(const std::string& text) {
  const std::string declared = text.substr(0, text.find('\0'));
  if (find_declaration(declared, "\"none\"")) return;
  ::setenv("HOLDFAST_DICTS", declared.c_str(), 1);
  holdfast_dict* dict = nullptr;
  const int code = call_limit()("attach", [&] { return holdfast_attach("\"none\"", 6, &dict); });
  ::unsetenv("HOLDFAST_DICTS");
  require(code == HOLDFAST_INVALID || code == HOLDFAST_NOT_FOUND, "a dictionary that nobody has created is found");
  require_sentence(holdfast_error());
}

void open_with(Input& input) {
  holdfast_options options{};
  options.size = input.take<std::uint64_t>();
  options.mutex = input.take<std::int32_t>();
  options.persist = input.take<std::int32_t>();
  options.mode = input.take<std::uint32_t>();
  // A handle exists until the process ends, so the target uses only a few valid names.
  std::string name = input.rest();
  if (check_name(name).ok()) name = name.substr(0, 1);
  if (options.size > kAffordable && options.size <= kSizeMax) options.size %= kAffordable;
  holdfast_dict* dict = nullptr;
  const int code = call_limit()("open", [&] { return holdfast_open(name.data(), name.size(), &options, &dict); });
  if (code != HOLDFAST_OK) return require_sentence(holdfast_error());
  require(options.size == 0 || options.size >= HOLDFAST_SIZE_MIN,
          "a dictionary is opened with a size below the minimum");
  require(holdfast_capacity(dict) >= options.size, "a dictionary is opened with a smaller size");
  require(options.mutex >= 0 && options.mutex <= HOLDFAST_MUTEX_FILE,
          "a dictionary is opened with an unknown kind of mutex");
  call_limit()("remove", [&] { return holdfast_remove(name.data(), name.size()); });
}

void parse_commands(const std::string& text) try {
  static const cli::Subcommand kRun{"run", "", "", "", "", nullptr};
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  cli::Arguments command_line(kRun, arguments);
  const cli::RunOptions options = cli::read_run_options(command_line);
  require(options.workers >= 1 && options.workers <= cli::kWorkersMax, "the number of workers is out of range");
  require(options.grace.count() >= 0 && options.grace.count() <= cli::kGraceMax, "the grace period is out of range");
} catch (const cli::Exit&) {  // refused
}

}  // namespace
}  // namespace holdfast::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast::fuzz;
  world_of_one();
  Input input(data, size);
  static constexpr std::array<void (*)(Input&), 6> kTargets{
      [](Input& rest) { parse_sizes(rest.rest()); },     parse_declarations,
      [](Input& rest) { attach_declared(rest.rest()); }, open_with,
      [](Input& rest) { parse_commands(rest.rest()); },  [](Input& rest) { encode_names(rest.rest()); }};
  kTargets[input.take<std::uint8_t>() % kTargets.size()](input);
  return 0;
}

#include "inspect/world.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "base/name.h"
#include "holdfast.h"
#include "inspect/files.h"
#include "inspect/packed.h"
#include "world/runtime_directory.h"

namespace holdfast::inspect {

namespace {

/// Explains why there is no process table.
Status no_world(const std::string& why) {
  if (dictionaries_without_table(directory_to_be()).empty()) return {Code::not_found, why + "; " + kOtherWays};
  return {Code::system,
          directory_to_be() + "/processes was deleted or moved, but programs still use it; see \"holdfast doctor\""};
}

Status failure(int code) { return {static_cast<Code>(code), sentence(code)}; }

// Returns the directory, or the reason why there is no world in it. A world exists once its first process has created
// the process table.
Expected<std::string> directory_or_why() {
  const char* const directory = holdfast_directory();
  if (directory != nullptr) return std::string(directory);
  const std::string why = holdfast_error();
  if (why.starts_with("there is no ")) return no_world(why);
  struct stat info {};
  const bool foreign = ::stat(directory_to_be().c_str(), &info) == 0 && info.st_uid != ::geteuid();
  if (foreign && ::geteuid() == 0)
    return Status{Code::permission, fmt::format("{} belongs to user {}; run this with --user {}", directory_to_be(),
                                                info.st_uid, info.st_uid)};
  return Status{Code::system, why};
}

}  // namespace

std::string sentence(int code) {
  const char* const said = holdfast_error();
  return *said != '\0' ? said : holdfast_code_text(code);
}

bool is_default_directory() {
  const char* const chosen = ::secure_getenv("HOLDFAST_DIR");
  return chosen == nullptr || *chosen == '\0';
}

std::string directory_to_be(uid_t user) { return directory_from_environment(user); }

Expected<std::string> observe() {
  if (const int code = holdfast_observe(); code != HOLDFAST_OK) return failure(code);
  return directory_or_why();
}

bool is_unused_yet(const Status& why) { return why.code == Code::not_found; }

Expected<std::string> enter(IfMissing if_missing) {
  if (if_missing == IfMissing::create) return directory_or_why();
  const std::string table = directory_to_be() + "/processes";
  struct stat info {};
  if (::stat(table.c_str(), &info) != 0 && errno == ENOENT) return no_world("no program uses " + directory_to_be());
  return directory_or_why();
}

Expected<std::vector<std::string>> dictionary_names() {
  std::vector<std::string> names;
  const int code =
      unpack(names, [](holdfast_value* packed, std::uint32_t* count) { return holdfast_list(packed, count); });
  if (code != HOLDFAST_OK) return failure(code);
  return names;
}

Status no_such_dictionary(const std::string& name) {
  constexpr std::size_t kShown = 20;
  std::string text = "there is no dictionary " + quote_name(name) + " in " + directory_to_be();
  auto names = dictionary_names();
  if (names) std::erase(*names, name);  // the dictionary did not exist a moment ago, but may exist by now
  if (!names || names->empty()) return {Code::not_found, text + ": it contains no dictionaries"};
  text += ": it contains ";
  for (std::size_t i = 0; i < names->size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + quote_name((*names)[i]);
  if (names->size() > kShown) text += ", and " + std::to_string(names->size() - kShown) + " more";
  return {Code::not_found, text};
}

}  // namespace holdfast::inspect

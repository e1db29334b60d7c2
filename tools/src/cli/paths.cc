#include "cli/paths.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "holdfast.h"

namespace holdfast::cli {

namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void append(std::string& path, const std::string& templates) {
  if (!path.empty() && !templates.empty() && path.back() != ';' && templates.front() != ';') path += ';';
  path += templates;
}

}  // namespace

SearchPaths search_paths() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path root = executable.parent_path().parent_path();
  SearchPaths paths;
  for (const fs::path& folder : {root / "lua", root / "share/lua/5.1"}) {
    if (!is_folder(folder / "resty/holdfast")) continue;
    append(paths.lua, (folder / "?.lua").string());
    append(paths.lua, (folder / "?/init.lua").string());
  }
  if (const fs::path library = loaded_library(); !library.empty()) {
    const fs::path folder = library.parent_path();
    paths.library = ((is_folder(folder / "lua/5.1") ? folder / "lua/5.1" : folder) / "?.so").string();
  }
  return paths;
}

std::string join_path(const char* user, const std::string& own, const std::string& defaults) {
  std::string tail = own;
  append(tail, defaults);
  if (user == nullptr) return tail;
  const std::string given = user;
  const std::size_t gap = given.find(";;");
  std::string path = given.substr(0, gap);
  if (gap == std::string::npos) {
    append(path, own);
    return path;
  }
  append(path, tail);
  append(path, given.substr(gap + 2));
  return path;
}

std::string program_beside(const char* name) {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  // Without /proc, return a path at which there is no program. The name alone might match a program in the current
  // folder.
  return ((error ? fs::path("/proc/self") : executable.parent_path()) / name).string();
}

bool is_program(const std::string& word) {
  if (word.find('/') != std::string::npos) return ::access(word.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + word).c_str(), X_OK) == 0) return true;
  return false;
}

std::string loaded_library() {
  Dl_info info{};
  // Look up a string inside the library, because the address of a function may be a stub in the executable.
  if (dladdr(holdfast_version(), &info) == 0 || info.dli_fname == nullptr) return {};
  const fs::path library = info.dli_fname;
  // The library may be linked into the executable, as in tests.
  if (!library.filename().native().starts_with("libholdfast.so")) return {};
  // Keep the name libholdfast.so.6 itself, because an update replaces the file to which this link points.
  std::error_code error;
  const fs::path folder = fs::canonical(library.parent_path(), error);
  return error ? std::string{} : (folder / library.filename()).string();
}

}  // namespace holdfast::cli

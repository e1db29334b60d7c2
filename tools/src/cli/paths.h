// Where the Lua files and the shared library of this executable are: in a build tree or in an installed one.
#pragma once

#include <string>

namespace holdfast::cli {

struct SearchPaths {
  std::string lua;      // templates for package.path
  std::string library;  // templates for package.cpath
};

/// Lua files of the trees that exist around the executable: <root>/lua for <root>/<build>/holdfast,
/// <prefix>/share/lua/5.1 for <prefix>/bin/holdfast. Libraries beside the one that is loaded. May be empty.
SearchPaths search_paths();

/// The user's value of LUA_PATH or LUA_CPATH (null: not set) comes first, with ";;" for the default as usual; then what
/// belongs to the executable, then the default.
std::string join_path(const char* user, const std::string& own, const std::string& defaults);

/// The file of the libholdfast.so that this process has loaded; empty when that cannot be told.
std::string loaded_library();

}  // namespace holdfast::cli

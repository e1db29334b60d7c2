// Finds the Lua files and the shared library of this executable, in a build tree or an installation.
#pragma once

#include <string>

namespace holdfast::cli {

struct SearchPaths {
  std::string lua;      // templates for package.path
  std::string library;  // templates for package.cpath
};

/// Returns the paths of the Lua files and libraries that belong to the executable; empty if they do not exist. Lua
/// files: <root>/lua for <root>/<build>/holdfast, and <prefix>/share/lua/5.1 for <prefix>/bin/holdfast. Libraries: the
/// folder lua/5.1 beside the loaded library if it exists, otherwise the folder of the loaded library.
SearchPaths search_paths();

/// Joins the user's LUA_PATH or LUA_CPATH (null: not set), the executable's own path and the default, in this order. As
/// usual, ";;" in the user's path stands for the default.
std::string join_path(const char* user, const std::string& own, const std::string& defaults);

/// Returns the path of the program with this name in the folder of the executable.
std::string program_beside(const char* name);

/// Returns the path of the libholdfast.so that this process has loaded; empty if it is unknown.
std::string loaded_library();

}  // namespace holdfast::cli

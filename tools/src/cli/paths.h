// Finds the Lua files and the shared library that belong to this executable, in a build tree or an installation.
#pragma once

#include <string>

namespace holdfast::cli {

struct SearchPaths {
  std::string lua;      // templates for package.path
  std::string library;  // templates for package.cpath
};

/// Returns the paths of the Lua files and libraries that belong to the executable. A path is empty if its files do not
/// exist. If the executable is <root>/<build>/holdfast, its Lua files are in <root>/lua. If it is
/// <prefix>/bin/holdfast, they are in <prefix>/share/lua/5.1. The libraries are in the folder lua/5.1 beside the loaded
/// library if that folder exists, otherwise in the folder of the loaded library.
SearchPaths search_paths();

/// Joins the user's LUA_PATH or LUA_CPATH (null: not set), the executable's own path and the default path, in this
/// order. As usual, ";;" in the user's path stands for the default path.
std::string join_path(const char* user, const std::string& own, const std::string& defaults);

/// Returns the path of the program with this name in the folder of the executable.
std::string program_beside(const char* name);

/// Returns whether execvp(3) would find a program for this word.
bool is_program(const std::string& word);

/// Returns the path of the libholdfast.so that this process has loaded, or an empty string if it is unknown.
std::string loaded_library();

}  // namespace holdfast::cli

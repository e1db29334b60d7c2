// Finds the Lua files and the shared library of this executable, in a build tree or an installed one.
#pragma once

#include <string>

namespace holdfast::cli {

struct SearchPaths {
  std::string lua;      // templates for package.path
  std::string library;  // templates for package.cpath
};

/// Returns the Lua files of the trees that exist around the executable: <root>/lua for <root>/<build>/holdfast, and
/// <prefix>/share/lua/5.1 for <prefix>/bin/holdfast; and the libraries beside the loaded one. May be empty.
SearchPaths search_paths();

/// Joins the user's LUA_PATH or LUA_CPATH (null: not set), in which ";;" stands for the default as usual, the
/// executable's own path, and the default, in this order.
std::string join_path(const char* user, const std::string& own, const std::string& defaults);

/// Returns the file of the libholdfast.so that this process has loaded; empty if unknown.
std::string loaded_library();

}  // namespace holdfast::cli

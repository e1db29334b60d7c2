#include "cli/agent_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/message.h"

namespace holdfast::cli {

int become_agent(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = (self.parent_path() / "holdfast-agent").string();
  std::vector<char*> values{program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) values.push_back(argument.data());
  values.push_back(nullptr);
  ::execv(program.c_str(), values.data());
  say("cannot run {}: {}; it is built where libcurl and nlohmann-json are installed", program, std::strerror(errno));
  return EXIT_FAILURE;
}

}  // namespace holdfast::cli

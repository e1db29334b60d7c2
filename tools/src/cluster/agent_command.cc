#include "cluster/agent_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/arguments.h"

namespace holdfast::cli {

namespace {

// The agent parses its own command line, and has its own help.
int run_agent(Arguments& arguments) { return become_agent(arguments.given()); }

}  // namespace

const Subcommand kAgent{"agent", "Run this machine's agent for a cluster", "", "", "", run_agent};

std::string agent_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "holdfast-agent").string();
}

std::string why_no_agent(int error) {
  return fmt::format("cannot run {}: {}; building it needs libcurl and nlohmann-json", agent_program(),
                     std::strerror(error));
}

int become_agent(const Words& given) {
  std::string program = agent_program();
  std::vector<char*> values{program.data()};
  Words copies = given;
  for (std::string& word : copies) values.push_back(word.data());
  values.push_back(nullptr);
  ::execv(program.c_str(), values.data());
  say("{}", why_no_agent(errno));
  return EXIT_FAILURE;
}

}  // namespace holdfast::cli

#include "cluster/agent_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/arguments.h"
#include "cli/paths.h"

namespace holdfast::cli {

namespace {

// The agent parses its own command line, and has its own help.
int run_agent(Arguments& arguments) { return become_agent(arguments.given()); }

}  // namespace

const Subcommand kAgent{"agent", "Run this machine's agent for a cluster", "", "", "", run_agent};

std::string agent_program() { return program_beside("holdfast-agent"); }

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

// The commands. Each is one object at the end of the file that implements it, with all texts of its help; it is
// declared here and has its row in commands.cc. `holdfast --help`, its own --help and the completion of bash follow
// from that.
#pragma once

#include <string>
#include <vector>

#include "cli/message.h"

namespace holdfast::cli {

using Words = std::vector<std::string>;
class Arguments;

struct Subcommand {
  const char* name;         // "ls", "cluster status"
  const char* summary;      // its line in the list of commands
  const char* usage;        // what follows "holdfast ls [OPTIONS]"
  const char* description;  // a sentence
  const char* footer;       // what else there is to say
  /// Says which options there are, reads the command line, and does what it says. Returns the exit status. What ends
  /// it before (--help, a wrong command line, a world that cannot be looked at) throws Exit.
  int (*run)(Arguments& arguments);
  int usage_status = exit_status::kTrouble;  // where the command line is wrong
  const char* program = "holdfast";          // that has it, as messages and the version name it
};

// By the file that has them.
extern const Subcommand kCluster;                           // cluster/cluster_command.cc
extern const Subcommand kHolders, kBreak, kAcceptNewStore;  // the same
extern const Subcommand kClusterStatus;                     // cluster/status_command.cc
extern const Subcommand kAgent;                             // cluster/agent_command.cc
extern const Subcommand kGet, kKeys, kTtl;                  // cli/get_command.cc
extern const Subcommand kSet, kDel, kIncr;                  // cli/set_command.cc
extern const Subcommand kRm, kPrune;                        // cli/rm_command.cc
extern const Subcommand kLock;                              // lock/lock_command.cc
extern const Subcommand kRelease;                           // lock/release_command.cc
extern const Subcommand kLs, kStat;                         // look/ls_command.cc
extern const Subcommand kLocks;                             // look/locks_command.cc
extern const Subcommand kTop;                               // look/top_command.cc
extern const Subcommand kDoctor;                            // look/doctor_command.cc
extern const Subcommand kRun;                               // run/run_command.cc
extern const Subcommand kServe;                             // serve/serve_command.cc

/// Runs `holdfast WORDS...`. The exit status.
int run_command_line(const Words& words);

}  // namespace holdfast::cli

// The table of commands. Each command is one object, which contains the command's help texts. The object is defined at
// the end of the file that implements the command, declared here, and listed in commands.cc. The output of --help and
// the bash completion are made from these objects.
#pragma once

#include <string>
#include <vector>

#include "cli/message.h"

namespace holdfast::cli {

using Words = std::vector<std::string>;
class Arguments;

struct Subcommand {
  const char* name;         // "ls", "cluster status"
  const char* summary;      // the description in `holdfast --help`
  const char* usage;        // the text after "holdfast ls [OPTIONS]"
  const char* description;  // the first sentence of `holdfast ls --help`
  const char* footer;       // the text after the options
  /// Declares the options, reads the command line and runs the command. Returns the exit status. Throws Exit if the
  /// command ends early: after --help, if the command line is wrong, or if the runtime directory cannot be read.
  int (*run)(Arguments& arguments);
  int usage_status = exit_status::kTrouble;  // exit status after a wrong command line
  const char* program = "holdfast";          // the name in messages and in the version
};

// The commands by file.
extern const Subcommand kCluster;                           // cluster/cluster_command.cc
extern const Subcommand kHolders, kBreak, kAcceptNewStore;  // the same file
extern const Subcommand kClusterStatus;                     // cluster/status_command.cc
extern const Subcommand kAgent;                             // cluster/agent_command.cc
extern const Subcommand kGet, kKeys, kTtl;                  // cli/get_command.cc
extern const Subcommand kSet, kDel, kIncr;                  // cli/set_command.cc
extern const Subcommand kRm, kPrune;                        // cli/rm_command.cc
extern const Subcommand kLock, kUnlock;                     // lock/lock_command.cc
extern const Subcommand kFlock;                             // lock/flock_command.cc
extern const Subcommand kRelease;                           // lock/release_command.cc
extern const Subcommand kQueue, kQueueLs, kQueuePush, kQueueTake, kQueueDone, kQueueRetry,
    kQueueDead;                      // queue/queue_command.cc
extern const Subcommand kQueueWork;  // queue/work_command.cc
extern const Subcommand kLs, kStat;  // look/ls_command.cc
extern const Subcommand kLocks;      // look/locks_command.cc
extern const Subcommand kTop;        // look/top_command.cc
extern const Subcommand kDoctor;     // look/doctor_command.cc
extern const Subcommand kRun;        // run/run_command.cc
extern const Subcommand kServe;      // serve/serve_command.cc

/// Runs `holdfast WORDS...`. Returns the exit status.
int run_command_line(const Words& words);

}  // namespace holdfast::cli

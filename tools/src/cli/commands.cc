#include "cli/commands.h"

#include <algorithm>

#include "cli/administration.h"
#include "cli/values.h"
#include "cluster/agent_command.h"
#include "cluster/cluster_command.h"
#include "lock/lock_command.h"
#include "look/locks_command.h"
#include "look/ls_command.h"
#include "look/top_command.h"
#include "serve/serve_command.h"

namespace holdfast::cli {

const std::vector<Subcommand>& commands() {
  static const std::vector<Subcommand> table{
      {"agent", "Keep the locks of a cluster for the programs of this machine", become_agent},
      {"cluster", "See and repair the locks of a cluster", run_cluster},
      {"del", "Delete keys", run_del},
      {"doctor", "Say what is wrong with a world, and repair it", run_doctor},
      {"get", "Print the value of a key", run_get},
      {"incr", "Add to a number", run_incr},
      {"keys", "Print the keys of a dictionary", run_keys},
      {"lock", "Run a command that holds a lock, as flock does", run_lock_command},
      {"locks", "List what is held and waited for", run_locks},
      {"ls", "List dictionaries", run_ls},
      {"prune", "Free what has expired, and what dead processes have left", run_prune},
      {"release", "End a grant that its holder does not end", run_release},
      {"rm", "Remove dictionaries", run_rm},
      {"serve", "Serve metrics, JSON and a page over HTTP", run_serve},
      {"set", "Store a value", run_set},
      {"stat", "Tell all of one dictionary", run_stat},
      {"top", "Show a world as it lives, on the whole screen", run_top},
      {"ttl", "Print how long a key lives yet, or set it", run_ttl},
  };
  return table;
}

const Subcommand* find_command(std::string_view name) {
  const auto found = std::find_if(commands().begin(), commands().end(),
                                  [&](const Subcommand& command) { return command.name == name; });
  return found != commands().end() ? &*found : nullptr;
}

std::string names_of_commands() {
  std::vector<std::string> names{"run"};
  for (const Subcommand& command : commands()) names.emplace_back(command.name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace holdfast::cli

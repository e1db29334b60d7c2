// `holdfast run`: runs a Lua script in several worker processes.
#include <fmt/core.h>

#include <cstdlib>
#include <exception>

#include "cli/arguments.h"
#include "holdfast.h"
#include "run/dictionaries.h"
#include "run/master.h"
#include "run/run_options.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

int run_master(const RunOptions& options) try {
  // The workers inherit the guard. If it cannot be installed, they run without the guard, like any other host.
  static_cast<void>(holdfast_guard_sigbus());
  export_declarations(options.dictionaries);
  if (const Status opened = open_declarations(options.dictionaries); !opened.ok()) {
    say("{}", opened.message);
    return EXIT_FAILURE;
  }
  set_title(fmt::format("holdfast: master {}", options.script.path));
  return Master(options).run();
} catch (const std::exception& error) {
  say("{}", error.what());
  return EXIT_FAILURE;
}

int run_run(Arguments& arguments) { return run_master(read_run_options(arguments)); }

}  // namespace

const Subcommand kRun{"run",
                      "Run a Lua script in several worker processes",
                      "SCRIPT [ARGUMENTS...]\n       holdfast run [OPTIONS] -e CODE [-- ARGUMENTS...]",
                      "Run a Lua script in several worker processes.",
                      R"(SCRIPT runs once in every worker, with its arguments in the table arg.
With -e, the arguments of CODE follow "--".
In the script, require "resty.holdfast.worker" provides id(), count() and exiting().

Signals to the master:
  TERM, INT  stop the workers; a second signal kills them
  QUIT       let the workers finish
  HUP        read the script again, start new workers, and let the old ones finish

Exit status: 0 all workers succeeded; 1 a worker failed; 2 invalid command line.
A master that is stopped by TERM or INT dies of that signal, so a shell reports 128 + n.)",
                      run_run};

}  // namespace holdfast::cli

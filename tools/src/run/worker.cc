#include "run/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/message.h"
#include "cli/paths.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

void set_environment(const WorkerPlace& place) {
  ::setenv("HOLDFAST_WORKER", std::to_string(place.number).c_str(), 1);
  ::setenv("HOLDFAST_WORKERS", std::to_string(place.count).c_str(), 1);
  // Use the library that this process has loaded, because a second copy would enter the world as a second process.
  const std::string library = loaded_library();
  if (!library.empty()) ::setenv("HOLDFAST_LIB", library.c_str(), 0);
}

// Makes the script's name the name of the program. `ps -C`, `top` and holdfast's lists of holders show this name.
void show_name(const WorkerPlace& place, const Script& script) {
  set_title(fmt::format("holdfast: worker {}/{} {}", place.number, place.count, script.path));
  if (!script.code) ::prctl(PR_SET_NAME, script.path.substr(script.path.rfind('/') + 1).c_str());
}

}  // namespace

void be_worker(const WorkerPlace& place, const Script& script, Descriptor channel) {
  const std::string speaker = fmt::format("worker {} (pid {})", place.number, ::getpid());
  int status = EXIT_FAILURE;
  try {
    set_environment(place);
    show_name(place, script);
    // Use line buffering even for a pipe, so that lines from different workers do not mix.
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    status = run_script(script, speaker, listen_to_master(std::move(channel)));
  } catch (const std::exception& error) {
    say("{}: {}", speaker, error.what());
  }
  std::exit(status);
}

}  // namespace holdfast::cli

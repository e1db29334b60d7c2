#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/world_options.h"
#include "holdfast.h"
#include "serve/address.h"
#include "serve/server.h"
#include "serve/token_file.h"

namespace holdfast::cli {

namespace {

constexpr const char* kDefaultAddress = "127.0.0.1:9145";

// Ends the process. There is nothing to clean up: this process holds nothing, and its children end when it ends.
void end_at_once(int /*signal*/) { ::_exit(exit_status::kYes); }

void end_by_signals() {
  struct sigaction action {};
  action.sa_handler = end_at_once;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

struct Wanted {
  std::string listen = kDefaultAddress;
  std::string token_file;
  std::uint32_t keys = 0;
};

[[noreturn]] void serve(const Wanted& wanted, WorldOptions& world) {
  auto address = value_or_fail(serve::Address::parse(wanted.listen));
  serve::Settings settings{address.is_loopback(), {}, wanted.keys};
  // Read the token and listen while still root, before switching to a different user.
  if (!wanted.token_file.empty()) settings.token = value_or_fail(serve::read_token(wanted.token_file));
  if (!settings.is_loopback && settings.token.empty())
    fail("other machines can reach {}; require a token with --token-file, or listen on 127.0.0.1",
         quote(wanted.listen));
  auto listener = value_or_fail(address.listen());
  world.apply();
  end_by_signals();
  fmt::print("listening on http://{}/\n", address.text());
  std::fflush(stdout);
  serve::Server(std::move(settings), std::move(listener)).run();
}

int run_serve(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::nothing);
  Wanted wanted;
  arguments.add_value("--listen", "ADDRESS",
                      "Listen on this IP address and port; port 0 is any free port; default: 127.0.0.1:9145",
                      wanted.listen);
  arguments.add_file("--token-file", "Require the token in FILE, sent as Authorization: Bearer TOKEN",
                     wanted.token_file);
  arguments.add_number("--keys", "N", "Add metrics for the N most contended keys, 0 to 64; default: 0", wanted.keys,
                       {.most = HOLDFAST_CONTENDED_MAX});
  arguments.parse();
  serve(wanted, world);
}

}  // namespace

const Subcommand kServe{
    "serve",
    "Serve metrics, JSON and a web page over HTTP",
    "",
    "Serve the state of a runtime directory over HTTP: metrics, JSON and a web page.",
    R"(/metrics is for Prometheus, /api/v1/ provides the JSON output of ls, stat, locks and doctor, and /
is the page.
The server only reads, as these commands do, and uses at most 1 % of a core. It keeps the last
hour in memory.

By default, only programs on this machine can connect. Any other address requires a token.)",
    run_serve};

}  // namespace holdfast::cli

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

// Nothing is to be kept: this process holds nothing, and its children end with it.
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
  // What root may read and listen on, it does before it becomes another user.
  if (!wanted.token_file.empty()) settings.token = value_or_fail(serve::read_token(wanted.token_file));
  if (!settings.is_loopback && settings.token.empty())
    fail("{} is reached from other machines: give a token by --token-file, or listen on 127.0.0.1",
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
  arguments.add_value("--listen", "ADDRESS", "Number and port; default: 127.0.0.1:9145. Port 0: any that is free",
                      wanted.listen);
  arguments.add_file("--token-file", "Ask for the token in FILE: Authorization: Bearer TOKEN", wanted.token_file);
  arguments.add_number("--keys", "N", "Metrics of the N keys with the most contention, 0 to 64; default: 0",
                       wanted.keys, {.most = HOLDFAST_CONTENDED_MAX});
  arguments.parse();
  serve(wanted, world);
}

}  // namespace

const Subcommand kServe{
    "serve",
    "Serve metrics, JSON and a page over HTTP",
    "",
    "Serves what there is in a world over HTTP: metrics, JSON, and a page to look at.",
    R"(/metrics is for Prometheus, /api/v1/ has the JSON of ls, stat, locks and doctor, / is the page.
It only looks, as these commands do, and takes at most 1 % of a core.

Programs of this machine reach it. Another address than loopback needs a token.)",
    run_serve};

}  // namespace holdfast::cli

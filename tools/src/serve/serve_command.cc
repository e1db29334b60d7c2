#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/world_options.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "serve/address.h"
#include "serve/server.h"
#include "serve/token_file.h"

namespace holdfast::cli {

namespace {

int run_serve(const Words& given);

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

int trouble(const Status& status) {
  say("{}", status.message);
  return exit_status::kTrouble;
}

int serve(const Wanted& wanted, WorldOptions& world) {
  auto address = serve::Address::parse(wanted.listen);
  if (!address) return trouble(address.status());
  serve::Settings settings{address->is_loopback(), {}, wanted.keys};
  // What root may read and listen on, it does before it becomes another user.
  if (!wanted.token_file.empty()) {
    auto token = serve::read_token(wanted.token_file);
    if (!token) return trouble(token.status());
    settings.token = *token;
  }
  if (!settings.is_loopback && settings.token.empty())
    return trouble({Code::invalid, fmt::format("{} is reached from other machines: give a token by --token-file, or "
                                               "listen on 127.0.0.1",
                                               quote(wanted.listen))});
  auto listener = address->listen();
  if (!listener) return trouble(listener.status());
  if (const auto wrong = world.apply()) return *wrong;
  end_by_signals();
  fmt::print("listening on http://{}/\n", address->text());
  std::fflush(stdout);
  serve::Server(std::move(settings), std::move(*listener)).run();
}

int run_serve(const Words& given) {
  Arguments arguments(kServe);
  WorldOptions world(arguments, WorldOptions::Prints::nothing);
  Wanted wanted;
  arguments.add_value("--listen", "ADDRESS", "Number and port; default: 127.0.0.1:9145. Port 0: any that is free",
                      wanted.listen);
  arguments.add_file("--token-file", "Ask for the token in FILE: Authorization: Bearer TOKEN", wanted.token_file);
  arguments.add_value("--keys", "N", "Metrics of the N keys with the most contention, 0 to 64; default: 0",
                      [&](const std::string& text) {
                        const auto number = inspect::whole_number_of(text);
                        if (!number || *number > HOLDFAST_CONTENDED_MAX)
                          return fmt::format("bad number {}: expected 0 to {}", quote(text),
                                             static_cast<int>(HOLDFAST_CONTENDED_MAX));
                        wanted.keys = static_cast<std::uint32_t>(*number);
                        return std::string();
                      });
  arguments.expect_words(0, 0, {});
  if (const auto done = arguments.parse(given)) return *done;
  return serve(wanted, world);
}

}  // namespace

}  // namespace holdfast::cli

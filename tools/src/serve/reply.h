// Makes replies to requests, and finds the sources of their documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/request.h"
#include "serve/server.h"

namespace holdfast::serve {

enum class Source { none, page, world, doctor, history };
/// Where the document for a path comes from, and its name there. Source::none: the path does not exist.
struct Place {
  Source source = Source::none;
  std::string document{};
  const char* type = "application/json";
  std::uint64_t from = 0;  // the number of the first sample, for history
};
Place find(const Request& request);

/// Returns the reply that refuses the request; its status is 200 if the request is not refused.
Reply judge(const Request& request, const Place& place, const Settings& settings);

Reply refusal(int status, const std::string& sentence);
/// Returns the status line and the header fields.
std::string head_of(const Reply& reply);

}  // namespace holdfast::serve

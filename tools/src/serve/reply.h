// Makes replies to requests, and finds the sources of their documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/request.h"
#include "serve/server.h"

namespace holdfast::serve {

enum class Source { none, page, world, doctor, history };
/// The source of the document for a path, and the document's name in this source. Source::none means that the path does
/// not exist.
struct Place {
  Source source = Source::none;
  std::string document{};
  const char* type = "application/json";
  std::uint64_t from = 0;  // the number of the first sample, for a history
};
Place find(const Request& request);

/// Returns the reply that refuses the request. If the request is not refused, the reply's status is 200.
Reply judge(const Request& request, const Place& place, const Settings& settings);

Reply refusal(int status, const std::string& sentence);
/// Returns the status line and the header fields.
std::string head_of(const Reply& reply);

}  // namespace holdfast::serve

#include "agent/document.h"

#include <nlohmann/json.hpp>

namespace holdfast::agent {

namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

std::string write_document(const Document& document) {
  json object{
      {"host", document.host}, {"machine", document.machine}, {"epoch", document.epoch}, {"when", document.when}};
  if (!document.name.dictionary.empty()) {
    object["dictionary"] = document.name.dictionary;
    object["key"] = document.name.key;
  }
  const Contender& contender = document.contender;
  if (contender.pid != 0) object["pid"] = contender.pid;
  if (!contender.program.empty()) object["program"] = contender.program;
  if (!contender.why.empty()) object["why"] = contender.why;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Document read_document(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return {};
  Document document;
  document.host = text_of(object, "host");
  document.machine = text_of(object, "machine");
  document.epoch = static_cast<std::uint32_t>(number_of(object, "epoch"));
  document.when = number_of(object, "when");
  document.name = {text_of(object, "dictionary"), text_of(object, "key")};
  document.contender = {number_of(object, "pid"), text_of(object, "program"), text_of(object, "why")};
  return document;
}

}  // namespace holdfast::agent

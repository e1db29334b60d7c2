#include "cli/each_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/name.h"
#include "inspect/ask_each.h"
#include "inspect/text.h"
#include "inspect/user_access.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

using inspect::Json;
using inspect::UserDirectory;

Json pack(const Shown& shown) {
  Json json{{"trouble", shown.trouble}, {"names", shown.names}, {"used", shown.is_used}, {"rows", Json::array()},
            {"text", shown.text},       {"items", shown.items}, {"status", shown.status}};
  for (const std::vector<Cell>& row : shown.rows) {
    Json& cells = json["rows"].emplace_back(Json::array());
    for (const Cell& cell : row) cells.push_back({cell.text, static_cast<int>(cell.style), cell.plain});
  }
  return json;
}

void unpack(const std::string& text, Shown& shown) {
  const Json json = Json::parse(text);
  shown.trouble = json.at("trouble").get<std::string>();
  shown.names = json.at("names").get<std::vector<std::string>>();
  shown.is_used = json.at("used").get<bool>();
  for (const Json& cells : json.at("rows")) {
    std::vector<Cell>& row = shown.rows.emplace_back();
    for (const Json& cell : cells)
      row.emplace_back(cell.at(0).get<std::string>(), static_cast<Style>(cell.at(1).get<int>()),
                       cell.at(2).get<std::string>());
  }
  shown.text = json.at("text").get<std::string>();
  shown.items = json.at("items");
  shown.status = json.at("status").get<int>();
}

/// Returns the result of `look`. Messages name the directory's user.
Shown look_at(const UserDirectory& directory, const std::function<Shown()>& look) {
  say_about(inspect::name_of_user(directory.user));
  try {
    return look();
  } catch (const Exit& exit) {
    return {.trouble = exit.message, .status = exit.status};
  }
}

}  // namespace

std::vector<Shown> look_at_each(const std::vector<UserDirectory>& directories, double seconds,
                                const std::function<Shown()>& look) {
  const auto answers = inspect::ask_each(directories, seconds, [&](const UserDirectory& directory) {
    return inspect::to_text(pack(look_at(directory, look)), inspect::Layout::line);
  });
  std::vector<Shown> all(directories.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Shown& shown = all[i];
    const std::string& trouble = answers[i].trouble;
    if (trouble.empty()) unpack(answers[i].text, shown);
    shown.directory = directories[i].path;
    shown.user = inspect::name_of_user(directories[i].user);
    if (trouble.empty()) continue;
    shown.trouble = fmt::format("cannot read {}: {}; to read only this directory, use --user {}", shown.directory,
                                trouble, shown.user);
    shown.status = exit_status::kTrouble;
  }
  return all;
}

bool is_any_used(const std::vector<Shown>& all) noexcept {
  return std::any_of(all.begin(), all.end(), [](const Shown& one) { return one.is_used; });
}

std::string directories_in_words(const std::vector<Shown>& all) {
  return all.size() == 1 ? inspect::escaped(all.front().directory) : fmt::format("{} runtime directories", all.size());
}

int report_troubles(const std::vector<Shown>& all) {
  int worst = exit_status::kYes;
  for (const Shown& one : all) {
    if (!one.trouble.empty()) say("{}: {}", inspect::escaped(one.user), one.trouble);
    worst = std::max(worst, one.status);
  }
  return worst;
}

std::vector<std::string> missing_names(const std::vector<std::string>& names, const std::vector<Shown>& all) {
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (std::none_of(all.begin(), all.end(), [&](const Shown& one) {
          return std::find(one.names.begin(), one.names.end(), name) != one.names.end();
        }))
      missing.push_back(fmt::format("there is no dictionary {} in any runtime directory", quote_name(name)));
  return missing;
}

Json json_of(const std::vector<Shown>& all, const char* list, bool with_users) {
  Json json;
  inspect::add_text(json, "directory", with_users ? inspect::directory_to_be() : all.front().directory);
  json[list] = Json::array();
  for (const Shown& one : all)
    for (Json item : one.items) {
      if (with_users) item["user"] = one.user;
      json[list].push_back(std::move(item));
    }
  if (!with_users) return json;
  json["directories"] = Json::array();
  for (const Shown& one : all)
    json["directories"].push_back(inspect::to_json(inspect::DirectoryLook{one.directory, one.user, one.trouble}));
  return json;
}

Table table_of(std::vector<Table::Column> columns, const std::vector<Shown>& all, bool with_users,
               const Output& output) {
  constexpr int kImportance = 5;  // keys and holders are more important
  if (with_users)
    columns.insert(output.columns ? columns.begin() : columns.end(), {"USER", Table::Align::left, false, kImportance});
  Table table(std::move(columns));
  for (const Shown& one : all)
    for (std::vector<Cell> row : one.rows) {
      if (with_users) row.insert(output.columns ? row.begin() : row.end(), Cell(inspect::escaped(one.user)));
      table.add(std::move(row));
    }
  return table;
}

}  // namespace holdfast::cli

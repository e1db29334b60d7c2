#include "weak/protocol.h"

#include <fstream>
#include <iterator>

namespace holdfast::weak {

void lock(Thread& t, Location mutex, Value me, Order order) {
  Value free = 0;
  t.require(t.compare_exchange(mutex, free, me, order));
}

void unlock(Thread& t, Location mutex, Value me, Order order) { t.compare_exchange(mutex, me, 0, order); }

Findings explore_all(const std::vector<Program>& programs) {
  Findings all;
  for (const Program& program : programs) {
    Findings one = explore(program);
    all.executions += one.executions;
    all.graphs += one.graphs;
    all.broken.merge(one.broken);
  }
  return all;
}

namespace {

std::string without_spaces(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != '\n') result += c;
  return result;
}

}  // namespace

void expect_quotes(const std::vector<Quote>& quotes) {
  for (const Quote& quote : quotes) {
    std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/" + quote.file);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NE(without_spaces(text).find(without_spaces(quote.line)), std::string::npos)
        << quote.file << " no longer contains\n  " << quote.line << "\nDoes the test still prove the changed lines?";
  }
}

}  // namespace holdfast::weak

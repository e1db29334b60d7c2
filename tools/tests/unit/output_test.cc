#include "cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <string>
#include <vector>

namespace holdfast::cli {
namespace {

class output : public testing::Test {
 protected:
  output() { EXPECT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr); }
};

TEST_F(output, elision_keeps_both_ends_and_never_exceeds_the_width) {
  EXPECT_EQ(elide("nightly", 7), "nightly");
  EXPECT_EQ(elide("/var/lib/nightly.lock", 12), "/var/…y.lock");
  EXPECT_EQ(elide("/var/lib/nightly.lock", 11), "/var/….lock");
  EXPECT_EQ(elide("nightly", 2), "…y");
  EXPECT_EQ(elide("nightly", 1), "…");
  EXPECT_EQ(elide("nightly", 0), "");
  EXPECT_EQ(elide("", 0), "");
  const std::vector<std::string> texts{"nightly", "漢字漢字漢字", "a漢b字c", "e\u0301e\u0301e\u0301e\u0301", "ééééé"};
  for (const std::string& text : texts)
    for (std::size_t width = 0; width <= width_of(text); ++width)
      EXPECT_LE(width_of(elide(text, width)), width) << text;
}

TEST_F(output, elision_never_divides_a_displayed_character) {
  const std::string escape = "\\x1B";
  EXPECT_EQ(elide("ab" + escape + "cd" + escape + "ef", 14), "ab" + escape + "cd" + escape + "ef");
  EXPECT_EQ(elide("ab" + escape + "cd" + escape + "ef", 13), "ab" + escape + "…" + escape + "ef");
  EXPECT_EQ(elide("ab" + escape + "cd" + escape + "ef", 12), "ab…" + escape + "ef");
  EXPECT_EQ(elide("ab" + escape + "cd" + escape + "ef", 11), "ab…ef");
  EXPECT_EQ(elide("\\\\\\\\\\\\", 5), "\\\\…\\\\");
  EXPECT_EQ(elide("\\\\\\\\\\\\", 4), "…\\\\");
  EXPECT_EQ(elide("e\u0301e\u0301e\u0301e\u0301", 3), "e\u0301…e\u0301");
  EXPECT_EQ(elide("\\xyz\\xyz", 7), "\\xy…xyz");
}

TEST_F(output, text_is_wrapped_at_blanks_and_no_line_is_too_wide) {
  using testing::ElementsAre;
  EXPECT_THAT(wrapped("one two three", 0, LongWords::broken), ElementsAre("one two three"));
  EXPECT_THAT(wrapped("one two three", 7, LongWords::broken), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("  one two three", 5, LongWords::broken), ElementsAre("  one", "two", "three"));
  EXPECT_THAT(wrapped("a 0123456789 b", 5, LongWords::broken), ElementsAre("a", "01234", "56789", "b"));
  EXPECT_THAT(wrapped("a 0123456789 b", 5, LongWords::elided), ElementsAre("a", "01…89", "b"));
  EXPECT_THAT(wrapped("ab\\x1B\\x1Bc", 5, LongWords::broken), ElementsAre("ab", "\\x1B", "\\x1Bc"));
  EXPECT_THAT(wrapped("漢字漢字", 5, LongWords::broken), ElementsAre("漢字", "漢字"));
  EXPECT_THAT(wrapped("漢 漢", 1, LongWords::broken), ElementsAre("漢", "漢"));
  EXPECT_THAT(wrapped("one  ", 3, LongWords::broken), ElementsAre("one"));
  EXPECT_THAT(wrapped("", 5, LongWords::broken), ElementsAre(""));
  EXPECT_THAT(wrapped("\x1b[31mone two\x1b[0m three", 7, LongWords::broken),
              ElementsAre("\x1b[31mone two\x1b[0m", "three"));
  EXPECT_EQ(paragraph("one two three", 20, "- ", "  "), "- one two three\n");
  EXPECT_EQ(paragraph("one two threefold", 12, "- ", "  "), "- one two\n  threefold\n");
}

TEST_F(output, width_counts_the_columns_of_a_terminal) {
  EXPECT_EQ(width_of("plain"), 5U);
  EXPECT_EQ(width_of("漢字"), 4U);
  EXPECT_EQ(width_of("é…"), 2U);
  EXPECT_EQ(width_of("e\u0301"), 1U);
}

TEST_F(output, a_line_elides_its_longest_parts_first) {
  const std::vector<Part> parts{{"waits: "}, {"0123456789abcdef", 4}, {" by "}, {"ABCDEFGHIJ", 8}};
  EXPECT_EQ(line_of(parts, 0), "waits: 0123456789abcdef by ABCDEFGHIJ");
  EXPECT_EQ(line_of(parts, 37), "waits: 0123456789abcdef by ABCDEFGHIJ");
  EXPECT_EQ(line_of(parts, 31), "waits: 0123…bcdef by ABCDEFGHIJ");
  EXPECT_EQ(line_of(parts, 26), "waits: 012…def by ABC…GHIJ");
  EXPECT_EQ(line_of(parts, 23), "waits: 0…ef by ABC…GHIJ");
  for (std::size_t width = 1; width < 40; ++width) EXPECT_LE(width_of(line_of(parts, width)), width);
}

TEST_F(output, a_table_omits_columns_only_if_eliding_is_not_enough) {
  Table table({{"ID", Table::Align::right}, {"KEY", Table::Align::left, true}, {"STATE"}});
  table.add({Cell("7"), Cell("0123456789abcdefghij"), Cell("held")});
  const auto shown = [&](std::size_t width) { return table.text({.columns = true, .colours = false, .width = width}); };
  EXPECT_EQ(shown(0), "ID  KEY                   STATE\n 7  0123456789abcdefghij  held\n");
  EXPECT_EQ(shown(31), shown(0));
  EXPECT_EQ(shown(27), "ID  KEY               STATE\n 7  0123456…cdefghij  held\n");
  EXPECT_EQ(shown(22), "ID  KEY\n 7  01234567…bcdefghij\n");
  EXPECT_EQ(shown(10), "ID\n 7\n");
  EXPECT_EQ(shown(1), "…\n7\n");
}

TEST_F(output, a_table_omits_the_least_important_columns_first) {
  Table table({{"NAME", Table::Align::left, false, 1}, {"KEY", Table::Align::left, false, 9}, {"STATE"}, {"PID"}});
  table.add({Cell("one"), Cell("two"), Cell("held"), Cell("4711")});
  const auto shown = [&](std::size_t width) { return table.text({.columns = true, .colours = false, .width = width}); };
  EXPECT_EQ(shown(22), "NAME  KEY  STATE  PID\none   two  held   4711\n");
  EXPECT_EQ(shown(21), "NAME  KEY  STATE\none   two  held\n");
  EXPECT_EQ(shown(15), "NAME  KEY\none   two\n");
  EXPECT_EQ(shown(8), "KEY\ntwo\n");
  EXPECT_EQ(shown(2), "…Y\n…o\n");
}

TEST_F(output, the_variable_COLUMNS_counts_only_if_it_is_a_number) {
  for (const char* const bad : {"", "0", "wide", "-3", "7 "}) {
    ::setenv("COLUMNS", bad, 1);
    EXPECT_EQ(line_width(-1), 0U) << bad;
  }
  ::setenv("COLUMNS", "72", 1);
  EXPECT_EQ(line_width(-1), 72U);
  ::setenv("COLUMNS", "99999999999", 1);
  EXPECT_EQ(line_width(-1), 65535U);
  ::unsetenv("COLUMNS");
}

}  // namespace
}  // namespace holdfast::cli

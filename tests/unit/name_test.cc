// Names of dictionaries: which there are, the names of their files, and how sentences show them.
#include "base/name.h"

#include <gtest/gtest.h>

#include <climits>
#include <set>
#include <string>

namespace holdfast {
namespace {

TEST(name, any_bytes_but_zero_ones_are_a_name) {
  for (const std::string good : {"a", "my_locks", "A-z.0_9", "a.", ".", "..", "../x", "/", "a/b", "my:cache", "a b",
                                 " ", "a=b,c", "100%", "%41", "a\n", "\x1B[2J", "\xC3\xA4", "\xFF"})
    EXPECT_TRUE(check_name(good).ok()) << good;
  EXPECT_EQ(check_name("").code, Code::invalid);
  const Status zero = check_name(std::string("a\0b", 3));
  EXPECT_EQ(zero.code, Code::invalid);
  EXPECT_NE(zero.message.find("\"a\\x00b\", with a zero byte: expected 1 to 250 bytes"), std::string::npos)
      << zero.message;
}

TEST(name, is_as_long_as_the_name_of_its_file_may_be) {
  static_assert(kNameMax + std::string_view(".dict").size() == NAME_MAX);
  EXPECT_TRUE(check_name(std::string(250, 'x')).ok());
  EXPECT_TRUE(check_name(std::string(83, ':')).ok());
  EXPECT_TRUE(check_name("." + std::string(247, 'x')).ok());
  for (const auto& bad : {std::string(251, 'x'), std::string(84, ':'), "." + std::string(248, 'x')})
    EXPECT_EQ(check_name(bad).code, Code::invalid) << bad;
  EXPECT_NE(check_name(std::string(251, 'x')).message.find("name of 251 bytes, \"xxx"), std::string::npos);
  const std::string counted = check_name(std::string(84, ':')).message;
  EXPECT_NE(counted.find("name of 84 bytes, which count as 252, \":::"), std::string::npos) << counted;
  EXPECT_NE(counted.find("expected 1 to 250 bytes"), std::string::npos) << counted;
}

TEST(name, is_itself_in_the_name_of_its_file_where_it_is_plain) {
  for (const std::string plain : {"a", "my_locks", "A-z.0_9", "a.b.", "x.dict"}) EXPECT_EQ(encode_name(plain), plain);
  EXPECT_EQ(encode_name("my:cache"), "my%3Acache");
  EXPECT_EQ(encode_name("a/b"), "a%2Fb");
  EXPECT_EQ(encode_name("../x"), "%2E.%2Fx");
  EXPECT_EQ(encode_name(".new-1"), "%2Enew-1");
  EXPECT_EQ(encode_name("100%"), "100%25");
  EXPECT_EQ(encode_name("\xC3\xA4\n"), "%C3%A4%0A");
}

TEST(name, of_each_file_is_one_and_of_each_name_one_file) {
  std::set<std::string> files;
  std::size_t names = 0;
  for (int first = 1; first <= UCHAR_MAX; ++first) {
    for (int second = 0; second <= UCHAR_MAX; ++second) {
      std::string name(1, static_cast<char>(first));
      if (second != 0) name += static_cast<char>(second);
      const std::string file = encode_name(name);
      ASSERT_EQ(decode_name(file), name) << file;
      ASSERT_EQ(file.find('/'), std::string::npos);
      ASSERT_NE(file.front(), '.');
      files.insert(file);
      ++names;
    }
  }
  EXPECT_EQ(files.size(), names);
}

TEST(name, is_none_of_a_file_that_encoding_does_not_make) {
  for (const std::string file :
       {"", "%61", "%3a", "a:b", "a b", "a/b", ".a", "%", "a%2", "a%G1", "%00", "%2x", "\xC3\xA4"})
    EXPECT_EQ(decode_name(file), std::nullopt) << file;
  EXPECT_EQ(decode_name(std::string(251, 'x')), std::nullopt);
  EXPECT_EQ(decode_name("%3A%2E.x"), std::nullopt) << "a '.' is encoded at the beginning only";
}

TEST(name, is_shown_so_that_a_terminal_stays_as_it_is) {
  EXPECT_EQ(quote("my:cache a/b"), "\"my:cache a/b\"");
  EXPECT_EQ(quote("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\x92"), "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\x92\"");
  EXPECT_EQ(quote("a\n\x1B[2J\x7F"), "\"a\\x0A\\x1B[2J\\x7F\"");
  EXPECT_EQ(quote(std::string("\0", 1)), "\"\\x00\"");
  // Control characters of Latin 1, a turn of the direction of writing, half a character, bytes that begin none.
  EXPECT_EQ(quote("\xC2\x9B"), "\"\\xC2\\x9B\"");
  EXPECT_EQ(quote("\xE2\x80\xAE"), "\"\\xE2\\x80\\xAE\"");
  EXPECT_EQ(quote("\xF3\xA0\x81\x81"), "\"\\xF3\\xA0\\x81\\x81\"") << "a tag character, invisible";
  EXPECT_EQ(quote("\xC3"), "\"\\xC3\"");
  EXPECT_EQ(quote("\xED\xA0\x80\xFF\xC0\xAF\x80"), "\"\\xED\\xA0\\x80\\xFF\\xC0\\xAF\\x80\"");
  EXPECT_EQ(quote(std::string(81, 'x')), "\"" + std::string(80, 'x') + "...\"");
  EXPECT_EQ(quote_name(std::string(250, 'x')), "\"" + std::string(250, 'x') + "\"");
}

}  // namespace
}  // namespace holdfast

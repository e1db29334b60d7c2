// Tests sizes, names and declarations as users write them, the names of dictionaries and of their files, and names in
// messages.
#include <gtest/gtest.h>

#include <climits>
#include <set>
#include <string>

#include "base/gate_name.h"
#include "base/name.h"
#include "base/parse.h"

namespace holdfast {
namespace {

TEST(parse, sizes_are_numbers_with_an_optional_unit) {
  EXPECT_EQ(*parse_size("1"), 1U);
  EXPECT_EQ(*parse_size("12345"), 12345U);
  EXPECT_EQ(*parse_size("100k"), 102400U);
  EXPECT_EQ(*parse_size("100K"), 102400U);
  EXPECT_EQ(*parse_size("1m"), 1U << 20);
  EXPECT_EQ(*parse_size("8G"), std::uint64_t{8} << 30);
  EXPECT_EQ(*parse_size("007k"), 7168U);
  EXPECT_EQ(*parse_size("1024g"), kSizeMax);
  EXPECT_EQ(*parse_size(std::to_string(kSizeMax)), kSizeMax);
}

TEST(parse, other_sizes_are_refused_with_the_given_text) {
  for (const std::string bad : {"", "0", "0k", "k", "-1", "+1", "1x", "1 m", " 1m", "1m ", "1mm", "1.5m", "0x10", "1e3",
                                "m1", "1025g", "1099511627777", "18446744073709551616", "99999999999999999999999g"}) {
    const auto size = parse_size(bad);
    ASSERT_FALSE(size) << bad;
    EXPECT_EQ(size.status().code, Code::invalid);
    EXPECT_NE(size.status().message.find("\"" + bad + "\""), std::string::npos) << size.status().message;
  }
  EXPECT_FALSE(parse_size(std::string("1\0m", 3)));
}

TEST(parse, messages_stay_printable_and_short) {
  const auto size = parse_size(std::string(100000, '\n'));
  ASSERT_FALSE(size);
  EXPECT_LT(size.status().message.size(), 300U);
  EXPECT_EQ(size.status().message.find('\n'), std::string::npos);
}

TEST(parse, declarations_name_dictionaries_and_their_sizes) {
  EXPECT_EQ(find_declaration("my_locks=1m,cache=64m", "my_locks")->bytes, 1U << 20);
  EXPECT_EQ(find_declaration("my_locks=1m,cache=64m", "cache")->bytes, 64U << 20);
  EXPECT_EQ(find_declaration(",,a=1k,", "a")->bytes, 1024U);
  EXPECT_EQ(find_declaration("my_locks=1m", "locks").status().code, Code::not_found);
  EXPECT_EQ(find_declaration("my_locks=1m", "my_lock").status().code, Code::not_found);
  EXPECT_EQ(find_declaration("", "a").status().code, Code::not_found);
  EXPECT_EQ(find_declaration("a=1x", "a").status().code, Code::invalid);
  EXPECT_EQ(find_declaration("a", "a").status().code, Code::invalid);
  EXPECT_EQ(find_declaration("a=1k,b=", "b").status().code, Code::invalid);
  EXPECT_EQ(find_declaration("a=1k,a=2k", "a")->bytes, 2048U) << "the last declaration counts";
  // A mistake is never ignored. The error quotes the part that contains the mistake.
  for (const char* text :
       {"a=1k, b=1k", "a=1k,x%2=1k", "a=1k,x%=1k", "a=1k,x%00=1k", "a=1k,=1k", "a=1k,b=1x", "a=1k,b", "a=1k,b=c=1k",
        "a=1k,b\tc=1k", "a=1k:", "a=1k:largest", "a=1k:largest=", "a=1k:largest=0", "a=1k:largest=x", "a=1k:big=1k",
        "a=1k:largest=1k:largest=1k", "a=:largest=1k", "a=1k,largest=1x"}) {
    const Status status = find_declaration(text, "a").status();
    EXPECT_EQ(status.code, Code::invalid) << text;
    EXPECT_NE(status.message.find("HOLDFAST_DICTS"), std::string::npos) << status.message;
  }
}

TEST(parse, declarations_name_dictionaries_and_their_clusters) {
  EXPECT_EQ(*find_cluster("jobs=main,other=second", "jobs"), "main");
  EXPECT_EQ(*find_cluster("jobs=main,other=second", "other"), "second");
  EXPECT_EQ(*find_cluster(",,a%2Cb=main,", "a,b"), "main");
  EXPECT_EQ(*find_cluster("a=main,a=main", "a"), "main");
  EXPECT_EQ(find_cluster("jobs=main", "job").status().code, Code::not_found);
  EXPECT_EQ(find_cluster("", "a").status().code, Code::not_found);
  for (const std::string text : {"a", "a=", "a=b c", "a=main,b", "a=main,=main", "a=main, b=main", "a=.b", "a=b=c",
                                 "a=main,a=other", "a%2=main"}) {
    const Status status = find_cluster(text, "a").status();
    EXPECT_EQ(status.code, Code::invalid) << text;
    EXPECT_NE(status.message.find("HOLDFAST_CLUSTER"), std::string::npos) << status.message;
  }
  EXPECT_EQ(find_cluster("a=" + std::string(64, 'x'), "a").status().code, Code::invalid);
}

TEST(parse, a_name_in_a_declaration_may_have_any_byte) {
  EXPECT_EQ(find_declaration("my:cache=1k,a/b=2k", "my:cache")->bytes, 1024U);
  EXPECT_EQ(find_declaration("a%2Cb=1k", "a,b")->bytes, 1024U);
  EXPECT_EQ(find_declaration("a%3db=1k", "a=b")->bytes, 1024U);
  EXPECT_EQ(find_declaration("a%20b=1k", "a b")->bytes, 1024U);
  EXPECT_EQ(find_declaration("100%25=1k", "100%")->bytes, 1024U);
  EXPECT_EQ(find_declaration("%61=1k", "a")->bytes, 1024U);
  EXPECT_EQ(find_declaration("caf\xC3\xA9=1k", "caf\xC3\xA9")->bytes, 1024U);
  EXPECT_EQ(find_declaration("a%2Cb=1k", "a%2Cb").status().code, Code::not_found);
  auto one = parse_declaration("a%2Cb=1K");
  ASSERT_TRUE(one) << one.status().message;
  EXPECT_EQ(one->name, "a,b");
  EXPECT_EQ(one->size, "1K");
  EXPECT_EQ(one->bytes, 1024U);
}

TEST(parse, a_declaration_may_contain_the_largest_value) {
  auto pages = find_declaration("a=1m,pages=500m:largest=200m,b=2m", "pages");
  ASSERT_TRUE(pages) << pages.status().message;
  EXPECT_EQ(pages->bytes, 500U << 20);
  EXPECT_EQ(pages->largest, 200U << 20);
  EXPECT_EQ(find_declaration("a=1m,pages=500m:largest=200m", "a")->largest, 0U);
  EXPECT_EQ(find_declaration("largest=1m:largest=10k", "largest")->largest, 10U << 10);
  EXPECT_NE(find_declaration("a=1m:largest=0", "a").status().message.find("bad largest value \"0\": expected"),
            std::string::npos);
  EXPECT_NE(find_declaration("a=1m:larget=1k", "a").status().message.find("expected largest=BYTES"), std::string::npos);
}

// --- names of dictionaries ---

TEST(name, may_be_any_bytes_except_zeros) {
  for (const std::string good : {"a", "my_locks", "A-z.0_9", "a.", ".", "..", "../x", "/", "a/b", "my:cache", "a b",
                                 " ", "a=b,c", "100%", "%41", "a\n", "\x1B[2J", "\xC3\xA4", "\xFF"})
    EXPECT_TRUE(check_name(good).ok()) << good;
  EXPECT_EQ(check_name("").code, Code::invalid);
  const Status zero = check_name(std::string("a\0b", 3));
  EXPECT_EQ(zero.code, Code::invalid);
  EXPECT_NE(zero.message.find("\"a\\x00b\", with a zero byte: expected 1 to 250 bytes"), std::string::npos)
      << zero.message;
}

TEST(name, may_be_as_long_as_the_name_of_its_file) {
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

TEST(name, is_unchanged_in_the_name_of_its_file_if_it_is_plain) {
  for (const std::string plain : {"a", "my_locks", "A-z.0_9", "a.b.", "x.dict"}) EXPECT_EQ(encode_name(plain), plain);
  EXPECT_EQ(encode_name("my:cache"), "my%3Acache");
  EXPECT_EQ(encode_name("a/b"), "a%2Fb");
  EXPECT_EQ(encode_name("../x"), "%2E.%2Fx");
  EXPECT_EQ(encode_name(".new-1"), "%2Enew-1");
  EXPECT_EQ(encode_name("100%"), "100%25");
  EXPECT_EQ(encode_name("\xC3\xA4\n"), "%C3%A4%0A");
}

TEST(name, and_file_correspond_one_to_one) {
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

TEST(name, does_not_exist_for_a_file_name_that_encoding_never_produces) {
  for (const std::string file :
       {"", "%61", "%3a", "a:b", "a b", "a/b", ".a", "%", "a%2", "a%G1", "%00", "%2x", "\xC3\xA4"})
    EXPECT_EQ(decode_name(file), std::nullopt) << file;
  EXPECT_EQ(decode_name(std::string(251, 'x')), std::nullopt);
  EXPECT_EQ(decode_name("%3A%2E.x"), std::nullopt) << "a '.' is encoded only at the beginning of a name";
}

TEST(name, is_shown_without_effect_on_a_terminal) {
  EXPECT_EQ(quote("my:cache a/b"), "\"my:cache a/b\"");
  EXPECT_EQ(quote("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\x92"), "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\x92\"");
  EXPECT_EQ(quote("a\n\x1B[2J\x7F"), "\"a\\x0A\\x1B[2J\\x7F\"");
  EXPECT_EQ(quote(std::string("\0", 1)), "\"\\x00\"");
  // These names contain control characters of Latin-1, a change of the writing direction, half a character, or bytes
  // that cannot begin a character.
  EXPECT_EQ(quote("\xC2\x9B"), "\"\\xC2\\x9B\"");
  EXPECT_EQ(quote("\xE2\x80\xAE"), "\"\\xE2\\x80\\xAE\"");
  EXPECT_EQ(quote("\xF3\xA0\x81\x81"), "\"\\xF3\\xA0\\x81\\x81\"") << "an invisible tag character";
  EXPECT_EQ(quote("\xC3"), "\"\\xC3\"");
  EXPECT_EQ(quote("\xED\xA0\x80\xFF\xC0\xAF\x80"), "\"\\xED\\xA0\\x80\\xFF\\xC0\\xAF\\x80\"");
  EXPECT_EQ(quote(std::string(81, 'x')), "\"" + std::string(80, 'x') + "...\"");
  EXPECT_EQ(quote_name(std::string(250, 'x')), "\"" + std::string(250, 'x') + "\"");
}

}  // namespace
}  // namespace holdfast

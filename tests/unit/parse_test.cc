// Sizes, names and declarations as people write them.
#include "base/parse.h"
#include "base/gate_name.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(parse, anything_else_is_refused_with_what_was_given) {
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
  EXPECT_EQ(find_declaration("a=1k,a=2k", "a")->bytes, 2048U) << "the last one counts";
  // A mistake anywhere is told, not skipped, and with the part that it is in.
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

TEST(parse, a_declaration_may_say_the_largest_value) {
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

}  // namespace
}  // namespace holdfast

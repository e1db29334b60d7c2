// Tests holdfast::dictionary and holdfast::result.
#include "cpp/cpp_test.h"

namespace holdfast::test {
namespace {

class CppDictionary : public CppTest {};

TEST_F(CppDictionary, opens_an_existing_dictionary_by_name) {
  EXPECT_EQ(dictionary::attach(name)->handle(), dict.handle());
  const std::string other = new_name();
  EXPECT_EQ(dictionary::attach(other).error().code, errc::not_found);
  EXPECT_EQ(dictionary::remove(other).error().code, errc::not_found);
}

TEST_F(CppDictionary, returns_the_values_that_were_stored) {
  const std::string longer(100'000, 'x');
  const std::string zeros("a\0b", 3);
  EXPECT_TRUE(dict.set("truth", true));
  EXPECT_TRUE(dict.set("count", 3));
  EXPECT_TRUE(dict.set("size", std::size_t{7}));
  EXPECT_TRUE(dict.set("ratio", 0.25));
  EXPECT_TRUE(dict.set("literal", "text"));
  EXPECT_TRUE(dict.set("longer", longer));
  EXPECT_TRUE(dict.set("zeros", std::string_view(zeros)));
  EXPECT_TRUE(dict.set("empty", ""));
  EXPECT_EQ(dict.get("truth").value(), value(true));
  EXPECT_EQ(dict.get("count").value(), value(3.0));
  EXPECT_EQ(dict.get("size").value(), value(7.0));
  EXPECT_EQ(dict.get("ratio").value(), value(0.25));
  EXPECT_EQ(dict.get("literal").value(), value("text"));
  EXPECT_EQ(dict.get("longer").value(), value(longer));
  EXPECT_EQ(dict.get("zeros").value(), value(zeros));
  EXPECT_EQ(dict.get("empty").value(), value(""));
}

TEST_F(CppDictionary, returns_a_lua_table_as_bytes) {
  ASSERT_EQ(holdfast_store(dict.handle(), HOLDFAST_SET, "t", 1, HOLDFAST_TABLE, "bytes", 5, 0, 0, 0, nullptr),
            HOLDFAST_OK);
  EXPECT_EQ(dict.get("t").value(), value(table{"bytes"}));
}

TEST_F(CppDictionary, reports_why_there_is_no_value) {
  const result<value> none = dict.get("nothing");
  EXPECT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::not_found);
  EXPECT_EQ(none.error().message, "not found");
  EXPECT_EQ(dict.get("").error().message, "empty key");
  EXPECT_EQ(dict.get("nothing").value_or(7.0), value(7.0));
}

TEST_F(CppDictionary, says_whether_a_copy_is_current) {
  const std::string other = new_name();
  const dictionary versions = dictionary::open_with_versions(other, {.size = 1 << 20}).value();
  EXPECT_FALSE(versions.get_changed("n")->what);
  const version first = versions.set_unless_changed("n", *versions.version_of("n"), 1).value();
  const versioned copy = versions.get_changed("n").value();
  EXPECT_EQ(copy.what, value(1.0));
  EXPECT_TRUE(versions.is_current(copy.of));
  EXPECT_TRUE(versions.is_current(first));
  EXPECT_EQ(versions.get_changed("n", first).error().code, errc::unchanged);
  EXPECT_EQ(versions.wait_for_change("n", first, 10ms).error().code, errc::unchanged);
  const std::string longer(100'000, 'x');
  EXPECT_TRUE(versions.set("n", longer));
  EXPECT_FALSE(versions.is_current(copy.of));
  EXPECT_EQ(versions.set_unless_changed("n", first, 2).error().code, errc::differs);
  EXPECT_EQ(versions.wait_for_change("n", first)->number, versions.version_of("n")->number);
  EXPECT_EQ(versions.get_changed("n", first)->what, value(longer));
  EXPECT_EQ(dict.version_of("n").error().code, errc::unsupported);
  EXPECT_TRUE(dictionary::remove(other));
}

TEST_F(CppDictionary, adds_replaces_increments_and_erases) {
  EXPECT_EQ(dict.replace("n", 1).error().code, errc::not_found);
  EXPECT_TRUE(dict.add("n", 1));
  EXPECT_EQ(dict.add("n", 2).error().code, errc::exists);
  EXPECT_TRUE(dict.replace("n", 3));
  EXPECT_EQ(dict.incr("n", 2).value(), 5);
  EXPECT_EQ(dict.incr("m", 2).error().code, errc::not_found);
  EXPECT_EQ(dict.incr("m", 2, 40).value(), 42);
  EXPECT_TRUE(dict.erase("m"));
  EXPECT_FALSE(dict.get("m"));
  EXPECT_TRUE(dict.set("text", "v"));
  EXPECT_EQ(dict.incr("text", 1).error().code, errc::not_a_number);
}

TEST_F(CppDictionary, reports_its_largest_value) {
  const std::uint64_t largest = dict.largest_value();
  EXPECT_TRUE(dict.set("k", std::string(largest, 'x')));
  const failure refused = dict.set("k", std::string(largest + 4096, 'x')).error();
  EXPECT_EQ(refused.code, errc::too_large);
  EXPECT_NE(refused.message.find("takes at most"), std::string::npos) << refused.message;
}

TEST_F(CppDictionary, drops_a_value_after_its_exptime) {
  EXPECT_TRUE(dict.set("k", "v", 10ms));
  EXPECT_TRUE(eventually([&] { return !dict.get("k"); }));
  EXPECT_EQ(dict.set("k", "v", -1s).error().code, errc::invalid);
}

TEST_F(CppDictionary, throws_an_error_with_a_message_if_it_cannot_be_opened) {
  const result<dictionary> other = dictionary::open(name, {.size = 2 * kSize});
  EXPECT_EQ(other.error().code, errc::mismatch);
  EXPECT_NE(other.error().message.find(name), std::string::npos) << other.error().message;
  EXPECT_EQ(dictionary::open("", {.size = kSize}).error().code, errc::invalid);
}

TEST(CppResult, throws_only_if_the_caller_takes_the_value) {
  const result<int> none = failure{errc::deadlock, "the sentence"};
  EXPECT_FALSE(none.has_value());
  try {
    static_cast<void>(none.value());
    FAIL() << "no exception was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::deadlock);
    EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur);
    EXPECT_NE(std::string(error.what()).find("the sentence"), std::string::npos) << error.what();
  }
  EXPECT_THROW(result<void>(failure{errc::locked, ""}).value(), std::system_error);
  EXPECT_EQ(result<int>(7).value(), 7);
}

TEST(CppResult, has_the_standard_code_with_the_same_meaning_if_there_is_one) {
  EXPECT_EQ(make_error_code(errc::locked), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(make_error_code(errc::no_memory), std::errc::not_enough_memory);
  EXPECT_EQ(make_error_code(errc::timeout), std::errc::timed_out);
  EXPECT_EQ(make_error_code(errc::not_owner), std::errc::operation_not_permitted);
  EXPECT_NE(make_error_code(errc::removed), std::errc::timed_out);
  EXPECT_EQ(make_error_code(errc::removed).message(), "removed");
  EXPECT_STREQ(category().name(), "holdfast");
}

}  // namespace
}  // namespace holdfast::test

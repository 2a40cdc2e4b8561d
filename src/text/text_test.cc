#include "text/text.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace coterie::text {
namespace {

Value yaml(std::string_view text) {
  Documents documents = parseYaml(text);
  EXPECT_TRUE(documents.faults.empty()) << faultText(documents.faults.front());
  EXPECT_EQ(documents.values.size(), 1u);
  return documents.values.empty() ? Value() : documents.values[0];
}

TEST(Yaml, ScalarsByTheCoreSchema) {
  const std::vector<std::pair<std::string, Value>> cases = {{"1", 1},
                                                            {"-7", -7},
                                                            {"+3", 3},
                                                            {"0", 0},
                                                            {"0x1f", 31},
                                                            {"0o17", 15},
                                                            {"1.5", 1.5},
                                                            {"-.5", -0.5},
                                                            {"1e3", 1000.0},
                                                            {"5.", 5.0},
                                                            {"9223372036854775807", INT64_MAX},
                                                            {"-9223372036854775808", INT64_MIN},
                                                            {"true", true},
                                                            {"False", false},
                                                            {"yes", "yes"},
                                                            {"no", "no"},
                                                            {"500m", "500m"},
                                                            {"512Mi", "512Mi"},
                                                            {"\"1\"", "1"},
                                                            {"'true'", "true"},
                                                            {"2026-01-01", "2026-01-01"},
                                                            {"1.2.3", "1.2.3"},
                                                            {"0x", "0x"},
                                                            {"-", "-"},
                                                            {".", "."},
                                                            {"1e", "1e"},
                                                            {"null", Value()},
                                                            {"~", Value()},
                                                            {"", Value()},
                                                            {"a b", "a b"}};
  for (const auto& [text, wanted] : cases) {
    if (text == "-") continue;  // a list of nothing
    EXPECT_EQ(*yaml("k: " + text + "\n").find("k"), wanted) << text;
  }
}

TEST(Yaml, ALineIsThatOfTheKey) {
  const Value value = yaml("# comment\na:\n  b: 1\n\n  c:\n    - x\n    - y: 2\n");
  EXPECT_EQ(value.find("a")->line, 2);
  EXPECT_EQ(value.find("a")->find("b")->line, 3);
  EXPECT_EQ(value.find("a")->find("c")->line, 5);
  EXPECT_EQ((*value.find("a")->find("c")->asList())[1].line, 7);
}

TEST(Yaml, SeveralDocumentsAndEmptyOnes) {
  const Documents documents = parseYaml("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n");
  ASSERT_TRUE(documents.faults.empty());
  ASSERT_EQ(documents.values.size(), 2u);
  EXPECT_EQ(documents.values[1].find("b")->line, 7);
  EXPECT_TRUE(parseYaml("").values.empty());
  EXPECT_TRUE(parseYaml("# only a comment\n").faults.empty());
}

TEST(Yaml, RefusesWithTheLine) {
  struct Case {
    std::string text;
    int line;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"a:\n\tb: 1\n", 2, "tab"},
      {"a: 1\nb:\n   c: 1\n  d: 2\n", 4, "indentation"},
      {"a: 1\n b: 2\n", 2, "indentation"},
      {"a: [1, 2\n", 2, "not closed"},
      {"a: {b: 1\n", 2, "not closed"},
      {"a: \"open\n", 1, "quotation"},
      {"a: 1\nb: &x 2\n", 2, "anchors"},
      {"a: *x\n", 1, "lias"},
      {"a: !!binary abc\n", 1, "tags"},
      {"a: 1\nb: 2\na: 3\n", 3, "twice; first on line 1"},
      {"a: 99999999999999999999\n", 1, "64 bits"},
      {"a: 007\n", 1, "leading zero"},
      {"a: .inf\n", 1, "infinity"},
      {"a: 1e999\n", 1, "too large"},
      {"a: \xff\n", 1, "UTF-8"},
      {"a: 1\nb: \xc0\xaf\n", 2, "UTF-8"},
      {"a: \x01\n", 1, "control character"},
      {"? [a]\n: 1\n", 1, "key must be text"},
      {"a: {{ value }}\n", 1, "key must be text"},
      {": 1\n", 1, "key"},
      {"a: @x\n", 1, "quote"},
      {"a: b: c\n", 1, "':'"},
  };
  for (const Case& c : cases) {
    const Documents documents = parseYaml(c.text);
    ASSERT_FALSE(documents.faults.empty()) << c.text;
    EXPECT_EQ(documents.faults[0].line, c.line) << c.text << faultText(documents.faults[0]);
    EXPECT_NE(documents.faults[0].message.find(c.says), std::string::npos) << c.text << faultText(documents.faults[0]);
  }
}

TEST(Yaml, ListsEveryDuplicateWithItsPath) {
  const Documents documents = parseYaml("a: {b: 1, b: 2}\nc:\n- d: 1\n  d: 2\n");
  ASSERT_EQ(documents.faults.size(), 2u);
  EXPECT_EQ(documents.faults[0].path, "a.b");
  EXPECT_EQ(documents.faults[1].path, "c[0].d");
}

// The "billion laughs": nine levels of ten aliases each would be 10^9 values.
TEST(Yaml, StoryOfTheBillionLaughs) {
  std::string text = "a0: &a0 [x, x, x]\n";
  for (int i = 1; i < 10; ++i) text += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  const Documents documents = parseYaml(text);
  ASSERT_EQ(documents.faults.size(), 1u);
  EXPECT_EQ(documents.faults[0].line, 1);
}

// Found by the fuzzer: the library returned an empty document without end.
TEST(Yaml, StoryOfTheLoneComma) {
  for (const char* text : {",", "a: 1\n---\n,\n", "]", "}", "? ,", "- a\n,"}) EXPECT_FALSE(parseYaml(text).faults.empty()) << text;
}

TEST(Yaml, DepthAndSizeAreBounded) {
  EXPECT_FALSE(parseYaml(std::string(100000, '[')).faults.empty());
  EXPECT_FALSE(parseYaml(std::string(65, '[') + std::string(65, ']')).faults.empty());
  EXPECT_TRUE(parseYaml(std::string(64, '[') + std::string(64, ']')).faults.empty());
  EXPECT_FALSE(parseYaml("[1,2,3,4]", {.values = 4}).faults.empty());
  EXPECT_FALSE(parseYaml("a: 1", {.bytes = 3}).faults.empty());
}

TEST(Json, Refuses) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"1e999", "line 1"},   {"{\"a\":1,\n\"a\":2}", "line 2: a: the key is there twice"},
                                                                  {"[1,]", "line 1"},    {"{\"a\":1} x", "line 1"},
                                                                  {"", "line 1"},        {"NaN", "line 1"},
                                                                  {"\"\xff\"", "UTF-8"}, {"\"\\ud800\"", "line 1"},
                                                                  {"[01]", "line 1"},    {std::string("{}\0{}", 5), "NUL"},
                                                                  {"'a'", "line 1"},     {"{\"a\":\n\n tru}", "line 3"}};
  for (const auto& [text, says] : cases) {
    const Result<Value> value = parseJson(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_NE(value.error().message.find(says), std::string::npos) << text << ": " << value.error().message;
  }
  EXPECT_EQ(parseJson(std::string(20, ' '), {.bytes = 10}).error().code, Code::TooLarge);
  EXPECT_FALSE(parseJson(std::string(1000000, '[')).ok());
  EXPECT_FALSE(parseJson(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_TRUE(parseJson(std::string(64, '[') + std::string(64, ']')).ok());
}

TEST(Json, NumbersKeepTheirKind) {
  EXPECT_EQ(*parseJson("9223372036854775807"), Value(INT64_MAX));
  EXPECT_EQ(*parseJson("18446744073709551615"), Value(18446744073709551615.0));
  EXPECT_EQ(*parseJson("0E50"), Value(0.0)) << "story of the logarithm of zero";
  EXPECT_EQ(*parseJson("1e-999"), Value(0.0));
  EXPECT_EQ(*parseJson("-0"), Value(0));
  EXPECT_EQ(*parseJson("1e2"), Value(100.0));
  EXPECT_FALSE(parseJson("-1e999").ok());
  EXPECT_EQ(printJson(Value(5.0)), "5.0");
  EXPECT_EQ(printJson(Value(0.1)), "0.1");
  EXPECT_EQ(printJson(Value(1e300)), "1e+300");
}

TEST(Print, YamlLooksAsPeopleWriteIt) {
  const Value value = yaml("b: 500m\na: {x: [1, 2], e: {}, l: [], list: [{w: \"on\", z: '12'}, [[1]]], s: \"a: b\", t: \"2026-01-01T00:00:00Z\"}\n");
  EXPECT_EQ(printYaml(value),
            "b: 500m\na:\n  x: [1, 2]\n  e: {}\n  l: []\n  list:\n    -\n      w: \"on\"\n      z: \"12\"\n    -\n      - [1]\n  s: \"a: b\"\n  t: "
            "\"2026-01-01T00:00:00Z\"\n");
}

std::string randomText() {
  static const std::vector<std::string> pieces = {
      "a",    "Z",    "0",    "9",    " ",  ":",  "#", "-", "\"", "'", "\\", "\n",           "\t",       "\r",           ",",
      "[",    "]",    "{",    "}",    "&",  "*",  "!", "%", "@",  "é", "日", "\xe2\x80\xa8", "\xc2\x85", "\xef\xbb\xbf", "😀",
      "\x01", "\x7f", "true", "null", ".5", "e1", "~", "?", "|",  ">", "=",  "<<",           "---",      "..."};
  std::string text;
  for (const auto& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) text += piece;
  return text.substr(0, text.size());
}

Value randomValue(int depth) {
  switch (*rc::gen::resize(100, rc::gen::inRange(0, depth > 0 ? 8 : 6))) {
    case 0: return {};
    case 1: return *rc::gen::arbitrary<bool>();
    case 2: return *rc::gen::arbitrary<std::int64_t>();
    case 3: return *rc::gen::arbitrary<double>();
    case 6: {
      Value list = Value::emptyList();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) list.push(randomValue(depth - 1));
      return list;
    }
    case 7: {
      Value map = Value::emptyMap();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) map.set(randomText(), randomValue(depth - 1));
      return map;
    }
    default: return randomText();
  }
}

RC_GTEST_PROP(Print, ParseGivesTheValueBack, ()) {
  Value value = Value::emptyMap();
  for (int i = 0; i < 8; ++i) value.set("k" + std::to_string(i), randomValue(4));
  const Result<Value> json = parseJson(printJson(value));
  RC_ASSERT(json.ok());
  RC_ASSERT(*json == value);
  RC_ASSERT(*parseJson(printJson(value, JsonStyle::Indented)) == value);
  const Documents documents = parseYaml(printYaml(value));
  if (!documents.faults.empty()) RC_FAIL(faultText(documents.faults[0]) + "\n" + printYaml(value));
  RC_ASSERT(documents.values.size() == 1u);
  RC_CLASSIFY(json->find("k0")->asMap() != nullptr, "maps");
  if (!(documents.values[0] == value)) RC_FAIL(printYaml(value) + printJson(documents.values[0]));
}

}  // namespace
}  // namespace coterie::text

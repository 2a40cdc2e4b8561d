#include "testing/xml_tree.h"

#include <gtest/gtest.h>

namespace coterie::testing {
namespace {

TEST(XmlTree, ReadsElementsAttributesAndText) {
  const auto root = parseXml("<a x=\"1\" y='&lt;&amp;'>b<c class=\"k\"/>d &gt; e<c>&#10;</c></a>\n");
  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root->attribute("y"), "<&");
  EXPECT_EQ(root->attribute("z"), "");
  EXPECT_EQ(root->text, "bd > e");
  EXPECT_EQ(root->all("c").size(), 2U);
  EXPECT_EQ(root->all("", "k").size(), 1U);
  EXPECT_EQ(root->all("").size(), 3U);
}

TEST(XmlTree, RefusesWhatAnyParserRefuses) {
  for (const char* text : {"", "a", "<a>", "<a></b>", "<a/><b/>", "<a/>b", "<a b/>", "<a b=1/>", "<a b='1' b='2'/>", "<a b='1'c='2'/>", "<a b='<'/>",
                           "<a>&</a>", "<a>&nbsp;</a>", "<a>\x01</a>", "<a b='1/>", "<1/>", "<a><b></a></b>", "<a></ab>"}) {
    EXPECT_FALSE(parseXml(text).ok()) << text;
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  EXPECT_FALSE(parseXml(deep).ok());
}

}  // namespace
}  // namespace coterie::testing

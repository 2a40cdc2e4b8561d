// Several workers over one prepared form of a model: the same answers, the weights in memory once, and nobody who can change them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "rig.h"

namespace coterie::worker_test {
namespace {

constexpr int kImage = 3 * 224 * 224;

std::vector<std::byte> image() {
  std::vector<float> pixels(kImage);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 97) / 97.0F;
  return bytesOf(pixels);
}

std::vector<float> floatsOf(const std::vector<std::byte>& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// MiB by field of smaps_rollup.
std::map<std::string, double> pagesOf(int pid) {
  std::map<std::string, double> fields;
  std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string line;
  while (std::getline(rollup, line)) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) fields[line.substr(0, colon)] = std::atof(line.c_str() + colon + 1) / 1024;
  }
  return fields;
}

std::shared_ptr<const PreparedModel> prepared(Rig& rig, const std::string& model, int id) {
  InstanceSpec spec = rig.spec(id, model);
  spec.prepare = true;
  spec.judge = false;
  return rig.startAndWait(spec) ? rig.ready[id].prepared : nullptr;
}

std::vector<float> answerOf(Rig& rig, int id) {
  const auto reply = rig.sendAndWait(Rig::lane(id), {1, 3, 224, 224}, image());
  EXPECT_FALSE(reply->error.has_value()) << reply->error->message;
  return reply->error ? std::vector<float>() : floatsOf(reply->outputs.at(0));
}

TEST(Prepared, WorkersOfAnyWidthRunOverOneCopyAndAnswerTheSame) {
  const Folder folder;
  Rig rig;
  const std::string model = folder.model("mobilenet_v2");
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, model))) << rig.ends[1].message;
  const std::vector<float> own = answerOf(rig, 1);
  const auto form = prepared(rig, model, 10);
  ASSERT_NE(form, nullptr) << rig.ends[10].message;
  EXPECT_GT(form->size().value, 13 << 20);
  folder.write("mobilenet_v2.onnx", "replaced");  // whatever becomes of it: they do not run over the tenant's file
  for (const int id : {2, 3}) {
    InstanceSpec spec = rig.spec(id, model);
    spec.prepared = form;
    spec.width = id - 1;
    ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[id].message;
    EXPECT_EQ(rig.ready[id].width, id - 1);
    const std::vector<float> answer = answerOf(rig, id);
    ASSERT_EQ(answer.size(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(answer[i], own[i], 1e-4 * std::max(1.0F, std::abs(own[i]))) << i;
  }
  if (COTERIE_SANITIZED) return;
  const auto alone = pagesOf(rig.ready[1].pid);
  for (const int id : {2, 3}) {
    const auto pages = pagesOf(rig.ready[id].pid);
    EXPECT_LT(pages.at("Pss_Anon"), alone.at("Pss_Anon") - 10) << "14 MB of weights are not its own";
    EXPECT_LT(pages.at("Pss"), alone.at("Pss") - 5);
  }
}

TEST(Prepared, TheFormOutlivesWhoMadeItAndGoesWithTheLastWhoRunsOverIt) {
  const Folder folder;
  Rig rig;
  auto form = prepared(rig, folder.model("mobilenet_v2"), 10);
  ASSERT_NE(form, nullptr);
  for (const auto& [id, ready] : rig.ready) rig.runtime->stop(InstanceId(id), Millis(0));
  ASSERT_TRUE(rig.waitFor([&] { return rig.ends.size() == rig.ready.size(); }));
  InstanceSpec spec = rig.spec(2, folder.path() + "/mobilenet_v2.onnx");
  spec.prepared = form;
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[2].message;
  const std::weak_ptr<const PreparedModel> watched = form;
  form.reset();
  spec.prepared.reset();
  for (auto& [id, ready] : rig.ready) ready.prepared.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_FALSE(answerOf(rig, 2).empty());
  rig.runtime->stop(InstanceId(2), Millis(0));
  ASSERT_TRUE(rig.waitForEnd(2));
  rig.loop.poll();
  EXPECT_TRUE(watched.expired());
}

TEST(Prepared, ExternalDataIsInTheFormToo) {
  const Folder folder;
  folder.write("weights.bin", std::string(64, '\0'));
  Rig rig;
  const std::string model = folder.model("external_inside");
  const auto form = prepared(rig, model, 10);
  ASSERT_NE(form, nullptr);
  std::filesystem::remove(folder.path() + "/weights.bin");
  InstanceSpec spec = rig.spec(2, model);
  spec.prepared = form;
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[2].message;
  const auto reply = rig.sendAndWait(Rig::lane(2), {1, 16}, bytesOf(std::vector<float>(16, 2.0F)));
  ASSERT_FALSE(reply->error.has_value()) << reply->error->message;
  EXPECT_EQ(floatsOf(reply->outputs.at(0)).at(5), 2.0F);
}

TEST(Prepared, WhatIsJudgedSaysWhetherItIsWorthItAndServesEitherWay) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("mlp"));
  spec.prepare = true;
  spec.measureWidths = {1, 2};
  spec.measureTime = Millis(60'000);
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  if (rig.ready[1].prepared) {
    EXPECT_GT(rig.ready[1].prepared->size().value, 400'000);
  }
  const auto reply = rig.sendAndWait(Rig::lane(1), {1, 784}, std::vector<std::byte>(784 * 4));
  EXPECT_FALSE(reply->error.has_value());
}

TEST(Prepared, AModelThatCannotBeServedIsRefusedAsEver) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("external_outside"));
  spec.prepare = true;
  EXPECT_FALSE(rig.startAndWait(spec));
  EXPECT_NE(rig.ends[1].message.find("outside its folder"), std::string::npos) << rig.ends[1].message;
  spec = rig.spec(2, folder.model("unknown_operator"));
  spec.prepare = true;
  EXPECT_FALSE(rig.startAndWait(spec));
  EXPECT_NE(rig.ends[2].message.find("Frobnicate"), std::string::npos) << rig.ends[2].message;
}

}  // namespace
}  // namespace coterie::worker_test

#include "weft/monitor/bucket_names.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Names = std::vector<std::string>;

TEST(BucketNames, LayersKeepTheirNumberAndLoseWhatAllShare) {
  EXPECT_EQ(bucket_names({{"lm_head.weight", "model.layers.5.mlp.up.weight"},
                          {"model.layers.5.attn.q.weight", "model.layers.3.mlp.up.weight"},
                          {"model.layers.3.attn.q.weight", "model.layers.3.norm.weight"},
                          {"model.layers.0.norm.weight", "model.embed_tokens.weight"}}),
            (Names{"lm_head to layers.5", "layers.3 to layers.5", "layers.3", "layers.0 to embed_tokens"}));
}

TEST(BucketNames, TwoListsStayApart) {
  EXPECT_EQ(bucket_names({{"net.decoder.layers.1.w", "net.decoder.layers.0.w"},
                          {"net.encoder.layers.10.w", "net.encoder.layers.9.w"}}),
            (Names{"decoder.layers.0 to decoder.layers.1", "encoder.layers.9 to encoder.layers.10"}));
}

TEST(BucketNames, ModulesWithoutNumbers) {
  EXPECT_EQ(bucket_names({{"head.weight", "block3.qkv.weight"}, {"block3.qkv.bias", "block3.out.bias"}}),
            (Names{"head to block3", "block3"}));
  EXPECT_EQ(bucket_names({{"net.head.weight"}, {"net.embed.weight", "net.embed.bias"}}), (Names{"head", "embed"}));
}

TEST(BucketNames, OddNames) {
  EXPECT_EQ(bucket_names({{"weight"}, {}, {""}, {"a..b"}}), (Names{"weight", "", "", "a"}));
  EXPECT_EQ(bucket_names({{"2.weight"}, {"0.weight", "0.bias"}}), (Names{"2", "0"}));
  EXPECT_EQ(bucket_names({{"layers.3.weight"}}), (Names{"layers.3"}));
  EXPECT_EQ(bucket_names({{"model.layers.3"}, {"model"}}), (Names{"layers.3", "model"}));
}

}  // namespace
}  // namespace weft

#include "weft/config/problem.h"

namespace weft::config {
namespace {

constexpr Severity kError = Severity::kError;
constexpr Severity kWarning = Severity::kWarning;
constexpr Severity kAdvice = Severity::kAdvice;

constexpr std::string_view kUnreadable =
    "A file that cannot be read means nothing to anybody; the place says where reading stopped.";
constexpr std::string_view kUnreadableZh = "读不懂的文件没有任何意义；位置指出读到哪里停下。";
constexpr std::string_view kTogether = "DeepSpeed refuses this, often only after every GPU has been taken.";
constexpr std::string_view kTogetherZh = "DeepSpeed 会拒绝，而且往往要等占用了所有 GPU 之后才报错。";

constexpr RuleInfo kRules[] = {
    {"syntax/hjson", kError, "the text is not HJSON (nor JSON)", "不是合法的 HJSON/JSON", kUnreadable, kUnreadableZh},
    {"syntax/yaml", kError, "the text is not YAML", "不是合法的 YAML", kUnreadable, kUnreadableZh},
    {"syntax/missing-file", kError, "there is no such file, and the text is not base64 of a config",
     "文件不存在，也不是配置的 base64", kUnreadable, kUnreadableZh},
    {"syntax/unreadable", kError, "the system would not read the file", "系统无法读取文件", kUnreadable, kUnreadableZh},
    {"syntax/duplicate-key", kError, "a key stands twice in one object", "同一个对象里键重复",
     "One of the two values would silently win; DeepSpeed refuses the file.",
     "两个值里只有一个会生效；DeepSpeed 会拒绝这个文件。"},
    {"syntax/not-a-number", kError, "Infinity, NaN or a number that overflows", "Infinity、NaN 或溢出的数",
     "JSON has none; HJSON reads the word as a text, or fails.", "JSON 没有这些值；HJSON 会把它读成字符串或报错。"},
    {"syntax/number-too-large", kError, "an integer beyond 64 bits", "超过 64 位的整数",
     "No setting counts that far; it is a slip.", "没有任何设置需要这么大的数，应是笔误。"},
    {"syntax/too-deep", kError, "objects nested deeper than 200", "嵌套超过 200 层", kUnreadable, kUnreadableZh},
    {"syntax/encoding", kError, "the bytes are not UTF-8", "不是 UTF-8 编码", kUnreadable, kUnreadableZh},
    {"syntax/binary", kError, "the file is binary", "二进制文件", kUnreadable, kUnreadableZh},
    {"syntax/too-large", kError, "the file is larger than 4 MiB", "文件超过 4 MiB",
     "A config is a page or two; this is another file.", "配置只有一两页，这多半是别的文件。"},
    {"syntax/directory", kError, "the path is a folder, or no regular file", "路径是目录或不是普通文件", kUnreadable,
     kUnreadableZh},
    {"syntax/root", kError, "the file does not hold an object", "文件内容不是对象", kUnreadable, kUnreadableZh},
    {"syntax/reference", kError, "the YAML refers to a config that is not there", "YAML 引用的配置文件不存在",
     kUnreadable, kUnreadableZh},

    {"keys/unknown", kWarning, "a key that neither DeepSpeed nor weft knows", "DeepSpeed 和 weft 都不认识的键",
     "DeepSpeed ignores unknown keys at the top level and in plain sections, and refuses them in others: an intention "
     "is lost either way.",
     "顶层和普通小节里的未知键会被 DeepSpeed 悄悄忽略，其他小节里则直接报错：意图都没有实现。"},
    {"keys/misspelt", kError, "a key one slip away from a known one", "键名拼写错误",
     "The setting the author believes in is not in force.", "作者以为生效的设置其实没有生效。"},
    {"keys/misplaced", kError, "a known key in a section where nothing reads it", "键写错了位置",
     "The setting the author believes in is not in force.", "作者以为生效的设置其实没有生效。"},
    {"keys/another-tools", kError, "a key of another tool, or one that never existed",
     "属于其他工具的键，或从未存在过的键", "Nothing reads it here.", "在这里没有任何代码会读它。"},
    {"keys/comment-refused", kError, "a comment written as a key in a section that refuses unknown keys",
     "在严格小节里用键写注释", "DeepSpeed refuses the file because of it.", "DeepSpeed 会因此拒绝整个文件。"},
    {"keys/removed", kError, "a key that DeepSpeed removed", "DeepSpeed 已移除的键",
     "Its presence alone stops DeepSpeed, even empty or disabled.",
     "只要出现就会让 DeepSpeed 停下，即使是空的或关闭的。"},
    {"keys/renamed", kWarning, "an old name that is ignored now", "改名后被忽略的旧键",
     "The default is used instead of the value.", "实际使用的是默认值。"},
    {"keys/deprecated", kWarning, "an old name that still works", "仍可用的旧写法",
     "It will go one day; the new name says more.", "迟早会被移除；新写法更清楚。"},
    {"keys/both-names", kError, "two names of one setting", "同一设置写了两个名字", kTogether, kTogetherZh},
    {"keys/too-new", kWarning, "a key that the DeepSpeed asked for does not know yet", "所选 DeepSpeed 版本还没有的键",
     "That version ignores it or refuses the file.", "那个版本会忽略它或拒绝文件。"},
    {"keys/out-of-scope", kAdvice, "a key that has no effect in weft, with another value than the default",
     "在 weft 里没有作用、取值又不是默认值的键",
     "Each has its reason in docs/settings.md; a run says it once, so that nothing is ignored in silence.",
     "原因见 docs/settings.md；训练开始时也会说明一次，不会悄悄忽略。"},
    {"keys/not-yet", kAdvice, "a key that weft does not act on yet", "weft 还不支持的键",
     "The training has the same results without it, and needs what it would have saved.",
     "没有它训练结果相同，只是省不下它本可节省的资源。"},
    {"keys/not-offered", kError, "a feature weft does not offer, switched on", "开启了 weft 不提供的功能",
     "Leaving it out would change the training without a word.", "悄悄忽略它会改变训练。"},

    {"types/wrong", kError, "a value of the wrong type", "值的类型不对", "DeepSpeed refuses it, or fails on it later.",
     "DeepSpeed 会拒绝，或在之后出错。"},
    {"types/python-literal", kError, "True, False or None, as Python writes them", "写成了 Python 的 True/False/None",
     "HJSON reads the rest of the line as a text, comma included.",
     "HJSON 会把这一行剩下的内容（包括逗号）读成字符串。"},
    {"types/range", kError, "a value out of range", "值超出范围", "DeepSpeed refuses it, or fails on it later.",
     "DeepSpeed 会拒绝，或在之后出错。"},
    {"types/not-an-object", kError, "a section that is not an object", "小节不是对象", kTogether, kTogetherZh},
    {"types/version", kError, "weft.semantics is not a DeepSpeed version", "weft.semantics 不是 DeepSpeed 版本号",
     "The newest meaning is used instead.", "将按最新版本理解。"},

    {"auto/needs-hidden-size", kAdvice, "\"auto\" that needs the model's hidden size",
     "\"auto\" 需要模型的 hidden size",
     "HF fills it in from the model; without a model DeepSpeed's default stands, 30 times larger for a bucket.",
     "HF 会按模型填写；没有模型时用 DeepSpeed 的默认值，桶会大约 30 倍。"},
    {"auto/default", kAdvice, "\"auto\" where nobody resolves it", "没有规则解析的 \"auto\"",
     "DeepSpeed drops the key and takes its default.", "DeepSpeed 会丢弃这个键并使用默认值。"},
    {"auto/unresolved", kError, "\"auto\" that nothing here can resolve", "无法解析的 \"auto\"",
     "DeepSpeed would hand the word to the constructor, which fails.", "DeepSpeed 会把这个词原样交给构造函数而出错。"},

    {"auto/disagrees", kWarning, "the file and the trainer say different things", "配置文件与训练参数不一致",
     "HF refuses to start; elsewhere the file wins, which may not be what was meant.",
     "HF 会拒绝启动；其他情况下以文件为准，未必是本意。"},

    {"batch/missing", kError, "no batch size", "没有批次大小", kTogether, kTogetherZh},
    {"batch/mismatch", kError, "train_batch_size is not micro batch x accumulation x world",
     "train_batch_size ≠ 微批次 × 累积 × 卡数", kTogether, kTogetherZh},

    {"arguments/unknown", kError, "an argument the optimizer or schedule does not take", "优化器或调度器没有的参数",
     kTogether, kTogetherZh},
    {"arguments/no-type", kWarning, "arguments of an optimizer or schedule that is not named",
     "有参数却没有指明优化器或调度器", "DeepSpeed reads params only where there is a type.",
     "只有写了 type，DeepSpeed 才会读取 params。"},
    {"arguments/unknown-type", kError, "an optimizer or schedule nobody has", "不存在的优化器或调度器", kTogether,
     kTogetherZh},
    {"arguments/class-name", kWarning, "an optimizer by the name of its class", "用类名指定优化器",
     "DeepSpeed knows its optimizers by other names in a config, and refuses this one.",
     "DeepSpeed 的配置用另外的名字，会拒绝这个写法。"},
    {"arguments/missing", kError, "an argument the schedule cannot do without", "缺少必需的参数", kTogether,
     kTogetherZh},
    {"arguments/removed-optimizer", kError, "an optimizer that DeepSpeed removed", "DeepSpeed 已移除的优化器",
     kTogether, kTogetherZh},
    {"arguments/not-offered", kError, "an optimizer, a schedule or an argument of them that weft does not have",
     "weft 没有的优化器、调度器或其参数", "Another one in its place would change the training without a word.",
     "悄悄换成别的会改变训练。"},
    {"arguments/value", kError, "an argument with a value that nothing can be computed with", "参数的取值无法使用",
     "A run would end with it; DeepSpeed often takes it, and trains on or fails at the first step.",
     "训练会因此中止；DeepSpeed 往往照单全收，继续训练或在第一步出错。"},
    {"arguments/warmup-steps", kError, "warmup_num_steps of 0 or less", "warmup_num_steps 小于等于 0", kTogether,
     kTogetherZh},

    {"conflicts/two-precisions", kError, "fp16 and bf16 both enabled", "fp16 和 bf16 同时开启", kTogether, kTogetherZh},
    {"conflicts/sum-stage3", kError, "summed gradients with stage 3", "stage 3 与梯度求和", kTogether, kTogetherZh},
    {"conflicts/norm-needs-stage", kError, "compute_grad_norm false outside stages 1 and 2",
     "stage 1、2 之外关闭 compute_grad_norm", kTogether, kTogetherZh},
    {"conflicts/norm-needs-no-clipping", kError, "compute_grad_norm false with clipping",
     "开启裁剪却关闭 compute_grad_norm", kTogether, kTogetherZh},
    {"conflicts/partial-offload", kError, "part of the optimizer state offloaded below stage 3",
     "stage 3 以下部分卸载优化器", kTogether, kTogetherZh},
    {"conflicts/master-needs-zero", kError, "bf16 master weights without ZeRO", "没有 ZeRO 却用 bf16 主权重", kTogether,
     kTogetherZh},
    {"conflicts/states-need-zero", kError, "bf16 optimizer states without ZeRO", "没有 ZeRO 却用 bf16 优化器状态",
     kTogether, kTogetherZh},
    {"conflicts/states-need-master", kError, "bf16 optimizer states without bf16 master weights",
     "bf16 优化器状态缺少 bf16 主权重", kTogether, kTogetherZh},
    {"conflicts/loss-scale-window", kError, "a loss_scale_window of 0 or less", "loss_scale_window 小于等于 0",
     kTogether, kTogetherZh},
    {"conflicts/min-loss-scale", kError, "a min_loss_scale of 0 or less", "min_loss_scale 小于等于 0", kTogether,
     kTogetherZh},
    {"conflicts/prescale-reduce-scatter", kError, "gradients scaled before a reduce-scatter",
     "reduce_scatter 前缩放梯度", kTogether, kTogetherZh},
    {"conflicts/odd-gather-bucket", kError, "an odd allgather_bucket_size", "allgather_bucket_size 为奇数", kTogether,
     kTogetherZh},
    {"conflicts/param-dtype", kError, "param_dtype is not the enabled precision", "param_dtype 与精度不一致", kTogether,
     kTogetherZh},
    {"conflicts/unmanaged-overlap", kError, "unmanaged accumulation with overlap in stage 1",
     "stage 1 下非托管累积与重叠通信", kTogether, kTogetherZh},
    {"conflicts/contiguous-checkpoints", kError, "contiguous checkpoints without their two conditions",
     "连续检查点缺少两项前提", kTogether, kTogetherZh},
    {"conflicts/lamb-static-scale", kError, "Lamb with a static loss scale", "Lamb 使用静态 loss scale", kTogether,
     kTogetherZh},
};

}  // namespace

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kAdvice: return "advice";
  }
  return "";
}

std::span<const RuleInfo> reading_rules() { return kRules; }

}  // namespace weft::config

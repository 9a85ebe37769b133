#include "weft/plan/layout.h"

#include <algorithm>
#include <array>
#include <limits>

#include "weft/base/text.h"
#include "weft/plan/refuse_impl.h"

namespace weft::plan {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void check_layout_options(const LayoutOptions& options) {
  if (options.world < 1 || options.world > kMaxWorld)
    refuse("no such world", cat(options.world, " ranks"), cat("give from 1 to ", kMaxWorld, " ranks"));
  if (options.bucket_elements < 1)
    refuse("a bucket must hold something", cat("reduce_bucket_size is ", options.bucket_elements),
           "set zero_optimization.reduce_bucket_size to a number of elements, such as 5e8");
  if (options.first_bucket_bytes < 0)
    refuse("a bucket must hold something", cat("the first one is to have ", options.first_bucket_bytes, " bytes"),
           "give 0 for no smaller first bucket");
  const int64_t multiple = options.slice_multiple;
  if (multiple < kAlignElements || multiple % kAlignElements != 0 || multiple > kMaxElements)
    refuse("slices would not be aligned", cat("they are to be a multiple of ", multiple, " elements"),
           cat("give a multiple of ", kAlignElements));
}

void check_trainable(const ParameterTable& table) {
  for (const int parameter : table.trainable()) {
    if (table.num_elements(parameter) > 0) return;
  }
  refuse("nothing to train", cat("of ", table.size(), " parameters none is trainable and has elements"),
         "leave requires_grad on for the parameters to train, or run the model without an engine");
}

std::vector<int> resolved_order(const ParameterTable& table, const std::vector<int>& given) {
  std::vector<int> all = table.trainable();
  if (given.empty()) {
    std::ranges::reverse(all);
    return all;
  }
  std::vector<int> sorted = given;
  std::ranges::sort(sorted);
  if (sorted == all) return given;
  std::vector<int> differing;
  std::ranges::set_symmetric_difference(sorted, all, std::back_inserter(differing));
  refuse(
      "the ready order is not one of the trainable parameters",
      cat(given.size(), " numbers for ", all.size(), " trainable parameters; number ", differing.front(),
          std::ranges::binary_search(all, differing.front()) ? " is missing" : " is no such parameter or there twice"),
      "name each trainable parameter once; a tied one by the parameter it is tied to");
}

void check_boundaries(const std::vector<int>& boundaries, size_t num_ready) {
  int last = 0;
  for (const int boundary : boundaries) {
    if (boundary <= last || static_cast<size_t>(boundary) >= num_ready)
      refuse("the bucket boundaries are impossible",
             cat("boundary ", boundary, " after ", last, ", of ", num_ready, " gradients"),
             cat("give ascending positions between 1 and ", num_ready - 1));
    last = boundary;
  }
}

// What all parameters of a bucket have in common.
struct BucketKind {
  Dtype dtype = Dtype::kFp32;
  bool persistent = false;
};

// By parameter. Those of a group stay or go together, so none of them stays.
std::vector<bool> persistent_ones(const ParameterTable& table, const LayoutOptions& options) {
  std::vector<bool> out(static_cast<size_t>(table.size()), false), grouped = out;
  for (const auto& group : options.together) {
    for (const int parameter : group) grouped[static_cast<size_t>(parameter)] = true;
  }
  int64_t room = options.max_persistent_elements;
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    const int64_t elements = table.num_elements(parameter);
    const bool small = elements < options.persistent_below && elements <= room;
    if (!small || grouped[static_cast<size_t>(parameter)] || table.owner(parameter) != parameter) continue;
    out[static_cast<size_t>(parameter)] = true;
    room -= elements;
  }
  return out;
}

// Puts parameters down one after the other, each kind into an open bucket of its own.
class Filler {
 public:
  Filler(const ParameterTable& table, const LayoutOptions& options, bool frozen)
      : table_(table),
        options_(options),
        frozen_(frozen),
        persistent_(persistent_ones(table, options)),
        group_of_(static_cast<size_t>(table.size()), kNoGroup) {
    for (size_t group = 0; group < options.together.size(); ++group) {
      for (const int parameter : options.together[group]) group_of_[static_cast<size_t>(parameter)] = group;
    }
  }

  void add(int parameter, int64_t limit) {
    const size_t group = group_of_[static_cast<size_t>(parameter)];
    if (group == kNoGroup) return put(parameter, limit);
    if (options_.together[group].front() == parameter) put_group(options_.together[group]);
  }

  void close_all() {
    for (size_t stream = 0; stream < streams_.size(); ++stream) close(kind_at(stream));
  }

  // In the order in which their last parameters came.
  std::vector<Bucket> finish() {
    close_all();
    std::ranges::sort(closed_, {}, &Closed::last_position);
    std::vector<Bucket> out;
    for (Closed& closed : closed_) out.push_back(std::move(closed.bucket));
    return out;
  }

 private:
  static constexpr size_t kNoGroup = SIZE_MAX;

  void put(int parameter, int64_t limit) {
    const BucketKind kind = {table_[parameter].dtype, persistent_[static_cast<size_t>(parameter)]};
    const int64_t elements = table_.num_elements(parameter);
    Stream& stream = stream_of(kind);
    if (!fits(stream, elements, limit_of(stream, kind.dtype, limit))) close(kind);
    const int64_t begin = rounded_up(filled(stream), kAlignElements);
    stream.open.places.push_back({parameter, begin, elements});
    stream.last_position = next_position_++;
  }

  void put_group(const std::vector<int>& group) {
    const BucketKind kind = {.dtype = table_[group.front()].dtype};
    close(kind);
    for (const int parameter : group) put(parameter, kNoLimit);
    close(kind);
  }

  struct Stream {
    Bucket open = {};
    bool is_first = true;
    int last_position = 0;
  };
  struct Closed {
    Bucket bucket;
    int last_position;
  };

  static int64_t filled(const Stream& stream) {
    return stream.open.places.empty() ? 0 : stream.open.places.back().end();
  }
  // What has no elements fits anywhere, and anything fits behind it: no bucket is nothing but padding if that can be helped.
  static bool fits(const Stream& stream, int64_t elements, int64_t limit) {
    if (filled(stream) == 0 || elements == 0) return true;
    return elements <= limit - std::min(limit, rounded_up(filled(stream), kAlignElements));
  }
  int64_t limit_of(const Stream& stream, Dtype dtype, int64_t limit) const {
    const bool is_small = stream.is_first && limit != kNoLimit && !frozen_ && options_.first_bucket_bytes > 0;
    return is_small ? std::min(limit, options_.first_bucket_bytes / bytes_of(dtype)) : limit;
  }
  static BucketKind kind_at(size_t stream) {
    return {kAllDtypes[stream % std::size(kAllDtypes)], stream >= std::size(kAllDtypes)};
  }
  Stream& stream_of(BucketKind kind) {
    return streams_[static_cast<size_t>(kind.dtype) + (kind.persistent ? std::size(kAllDtypes) : 0)];
  }

  void close(BucketKind kind) {
    Stream& stream = stream_of(kind);
    if (stream.open.places.empty()) return;
    Bucket& bucket = stream.open;
    bucket.dtype = kind.dtype;
    bucket.frozen = frozen_;
    bucket.persistent = kind.persistent;
    // At least one unit, so that no collective is empty.
    bucket.slice_elements =
        rounded_up(std::max<int64_t>(1, filled(stream)), options_.world * options_.slice_multiple) / options_.world;
    bucket.num_elements = bucket.slice_elements * options_.world;
    closed_.push_back({std::move(bucket), stream.last_position});
    stream = {.is_first = false};
  }

  const ParameterTable& table_;
  const LayoutOptions& options_;
  const bool frozen_;
  const std::vector<bool> persistent_;
  std::vector<size_t> group_of_;  // by parameter, in options_.together
  int next_position_ = 0;
  std::array<Stream, 2 * std::size(kAllDtypes)> streams_ = {};
  std::vector<Closed> closed_ = {};
};

std::vector<Bucket> fill_trainable(const ParameterTable& table, const LayoutOptions& options,
                                   const std::vector<int>& order) {
  Filler filler(table, options, false);
  const int64_t limit = options.boundaries ? kNoLimit : options.bucket_elements;
  const std::vector<int> boundaries = options.boundaries.value_or(std::vector<int>());
  auto boundary = boundaries.begin();
  for (int position = 0; const int parameter : order) {
    if (boundary != boundaries.end() && *boundary == position) {
      filler.close_all();
      ++boundary;
    }
    filler.add(parameter, limit);
    ++position;
  }
  return filler.finish();
}

std::vector<Bucket> fill_frozen(const ParameterTable& table, const LayoutOptions& options) {
  Filler filler(table, options, true);
  for (const int parameter : table.frozen()) filler.add(parameter, options.bucket_elements);
  return filler.finish();
}

void check_together(const ParameterTable& table, const std::vector<std::vector<int>>& together) {
  const auto refuse_group = [](std::string what) {
    refuse("these parameters cannot be gathered together", std::move(what),
           "name parameters of one type, each in one group, all trainable or all frozen");
  };
  std::vector<bool> seen(static_cast<size_t>(table.size()), false);
  for (const auto& group : together) {
    if (group.empty()) refuse_group("a group is empty");
    for (const int parameter : group) {
      if (parameter < 0 || parameter >= table.size()) refuse_group(cat("there is no parameter ", parameter));
      const Parameter &one = table[parameter], &first = table[group.front()];
      if (table.owner(parameter) != parameter) refuse_group(cat("'", one.name, "' is tied to another"));
      if (seen[static_cast<size_t>(parameter)]) refuse_group(cat("'", one.name, "' is there twice"));
      if (one.dtype != first.dtype || one.frozen != first.frozen)
        refuse_group(cat("'", one.name, "' is not of the kind of '", first.name, "'"));
      seen[static_cast<size_t>(parameter)] = true;
    }
  }
}

// Padding could still lift a table of a million scalars on 65,536 ranks above what the other sums rely on.
void check_padded(const std::vector<Bucket>& buckets) {
  int64_t total = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.num_elements > 2 * kMaxElements - total)
      refuse("the padded buckets are too large",
             cat("more than ", 2 * kMaxElements, " elements in ", buckets.size(), " buckets"),
             "set a larger zero_optimization.reduce_bucket_size, so that fewer buckets are padded");
    total += bucket.num_elements;
  }
}

std::vector<Home> homes_in(const std::vector<Bucket>& buckets, const ParameterTable& table) {
  std::vector<Home> homes(static_cast<size_t>(table.size()));
  for (int b = 0; const Bucket& bucket : buckets) {
    for (int p = 0; const Place& place : bucket.places) homes[static_cast<size_t>(place.parameter)] = {b, p++};
    ++b;
  }
  for (int i = 0; i < table.size(); ++i) homes[static_cast<size_t>(i)] = homes[static_cast<size_t>(table.owner(i))];
  return homes;
}

}  // namespace

int64_t Bucket::used_elements() const {
  int64_t used = 0;
  for (const Place& place : places) used += place.num_elements;
  return used;
}

std::span<const Bucket> Layout::gradient_buckets() const {
  return std::span(buckets).first(static_cast<size_t>(num_gradient_buckets));
}

std::span<const Bucket> Layout::frozen_buckets() const {
  return std::span(buckets).subspan(static_cast<size_t>(num_gradient_buckets));
}

const Place& Layout::place(int parameter) const {
  const Home& at = home(parameter);
  return bucket(at.bucket).places[static_cast<size_t>(at.place)];
}

Layout make_layout(const ParameterTable& table, const LayoutOptions& options) {
  check_layout_options(options);
  check_trainable(table);
  check_together(table, options.together);
  Layout layout{.world = options.world, .ready_order = resolved_order(table, options.ready_order)};
  if (options.boundaries) check_boundaries(*options.boundaries, layout.ready_order.size());
  layout.buckets = fill_trainable(table, options, layout.ready_order);
  layout.num_gradient_buckets = static_cast<int>(layout.buckets.size());
  std::ranges::move(fill_frozen(table, options), std::back_inserter(layout.buckets));
  check_padded(layout.buckets);
  layout.homes = homes_in(layout.buckets, table);
  return layout;
}

}  // namespace weft::plan

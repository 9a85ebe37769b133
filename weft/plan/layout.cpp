#include "weft/plan/layout.h"

#include <algorithm>
#include <array>
#include <limits>

#include "weft/base/text.h"

namespace weft::plan {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

[[noreturn]] void refuse(std::string title, std::string what, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = "", .fix = std::move(fix)});
}

int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void check(const LayoutOptions& options) {
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

// Puts parameters down one after the other, each type into an open bucket of its own.
class Filler {
 public:
  Filler(const ParameterTable& table, const LayoutOptions& options, bool frozen)
      : table_(table), options_(options), frozen_(frozen) {}

  void add(int parameter, int64_t limit) {
    const Dtype dtype = table_[parameter].dtype;
    const int64_t elements = table_.num_elements(parameter);
    Stream& stream = stream_of(dtype);
    if (!fits(stream, elements, limit_of(stream, dtype, limit))) close(dtype);
    const int64_t begin = rounded_up(filled(stream), kAlignElements);
    stream.open.places.push_back({parameter, begin, elements});
    stream.last_position = next_position_++;
  }

  void close_all() {
    for (const Dtype dtype : kAllDtypes) close(dtype);
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
  Stream& stream_of(Dtype dtype) { return streams_[static_cast<size_t>(dtype)]; }

  void close(Dtype dtype) {
    Stream& stream = stream_of(dtype);
    if (stream.open.places.empty()) return;
    Bucket& bucket = stream.open;
    bucket.dtype = dtype;
    bucket.frozen = frozen_;
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
  int next_position_ = 0;
  std::array<Stream, std::size(kAllDtypes)> streams_ = {};
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
  check(options);
  check_trainable(table);
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

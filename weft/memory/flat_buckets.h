// The memory of a plan's buckets: parameters and gradients of a model laid into flat tensors, one pair to a bucket.
//
//   FlatBuckets buckets(plan, parameters, {.allocate_gradients = ...});
//   buckets.fill();                   // with the model's values, in the types of the plan
//   buckets.lay_in();                 // the model's parameters are views of the buckets from here on
//   buckets.attach_gradient(p);       // a gradient that has just come: into its bucket, where later ones are added to it
//   buckets.gradients(3);             // all gradients of bucket 3, ready for one collective
//   buckets.forget_gradients();       // .grad is undefined again
//
// The first gradient of a step is autograd's own tensor and is copied in, so that buckets need not be zeroed between steps;
// those of later micro-steps autograd adds where they lie.
//
// A model does not notice: its tensors keep their identity, their shape and their values. Tied parameters share one place.
//
// Ownership: the flat tensors are ours, the model's parameters hold on to them through their views. Threads: one at a time.
// Failure: torch's errors where memory is refused; whatever allocate_gradients throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "weft/plan/plan.h"

namespace weft::memory {

at::ScalarType scalar_type(plan::Dtype dtype);

struct FlatOptions {
  // Zeroed memory that the transport can reduce or gather where it lies. Called once per bucket, in order, on every rank.
  std::function<at::Tensor(int64_t count, at::ScalarType type)> allocate_gradients;
  std::function<at::Tensor(int64_t count, at::ScalarType type)> allocate_parameters = {};  // absent: plain memory
  // Gradient buckets take turns in so many buffers of each type; 0: each has memory of its own.
  int num_buffers = 0;
  bool with_frozen = false;  // frozen parameters are laid into buckets too
  // Gradient buckets have memory from the first gradient of a step until they are forgotten, so that activations and gradients can
  // have the same. For devices, whose allocator keeps it at hand; not with num_buffers.
  bool gradients_come_and_go = false;
};

// Rank r's part of a bucket, whatever of the bucket the flat tensor holds: parameters, gradients, what travels.
at::Tensor slice_of(const at::Tensor& bucket, int rank, int world);

class FlatBuckets {
 public:
  // parameters[i] is the plan's parameter i. All on one device.
  FlatBuckets(const plan::Plan& plan, std::vector<at::Tensor> parameters, const FlatOptions& options);

  int size() const { return static_cast<int>(gradients_.size()); }  // those with gradients, which come first
  int num_with_frozen() const { return static_cast<int>(parameters_.size()); }
  const at::Tensor& parameters(int bucket) const { return parameters_[static_cast<size_t>(bucket)]; }
  const at::Tensor& gradients(int bucket) const { return gradients_[static_cast<size_t>(bucket)]; }
  // A parameter's own part of its bucket, in its shape.
  at::Tensor parameter_view(int parameter) const;
  at::Tensor gradient_view(int parameter) const;

  // Copies the model's values in, then makes its parameters views; what they were goes then, unless others hold it. Frozen
  // parameters without buckets stay where they are.
  void fill() const;
  void fill(int bucket) const;
  void lay_in();
  void lay_in(int bucket);
  // Whether the model's parameter is still in the bucket's storage, whether that has memory or not.
  bool holds_parameter(int parameter) const;

  enum class Attached { kBefore, kNow, kSparse, kAbsent };
  // Makes .grad the bucket's memory: one that lies elsewhere is copied in, an absent one is zeros. What it was.
  Attached attach_gradient(int parameter);
  bool is_in_place(int parameter) const;
  // Those that have one; for a new layout.
  void attach_present_gradients();
  void forget_gradients();

  // For gradients that autograd keeps by itself: into the bucket before it is reduced, and back. Between begin_packing() and the
  // bucket's collective each is packed once; an absent one is zeros.
  void begin_packing(int bucket);
  void pack_gradient(int parameter);
  void unpack_gradients(int bucket);
  void forget_gradients(int bucket);
  void forget_gradient(int parameter);
  // One that came again when it was packed and forgotten: as autograd would have added the two.
  void take_back_gradient(int parameter);
  // Gives .grad the bucket's type, where autograd keeps it: those that it adds later are then added in that type.
  void widen_gradient(int parameter);
  // Which buffer a bucket's gradients lie in; buckets with the same number take turns.
  int buffer(int bucket) const { return buffers_[static_cast<size_t>(bucket)]; }
  int num_buffers() const { return num_buffers_; }

  const at::Tensor& model_parameter(int parameter) const { return model_[static_cast<size_t>(parameter)]; }
  const plan::Layout& layout() const { return layout_; }

 private:
  at::Tensor view(const at::Tensor& flat, int parameter) const;
  void measure_rings(const plan::Plan& plan, int num_buffers);
  at::Tensor next_gradients(const plan::Bucket& bucket, at::ScalarType type, const FlatOptions& options);
  void clear_padding(int bucket, const at::Tensor& flat) const;
  bool lies_in(const at::Tensor& tensor, const std::vector<at::Tensor>& flats, int parameter) const;
  at::Tensor& model_gradient(int parameter);
  void need_gradients(int bucket);

  plan::Layout layout_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<at::Tensor> model_;                   // by parameter
  std::vector<at::Tensor> parameters_, gradients_;  // by bucket
  std::vector<int> buffers_;                        // by bucket
  int num_buffers_ = 0;
  std::vector<bool> is_away_;  // by bucket: its gradients have no memory; empty where they always have
  struct Ring {
    std::vector<int64_t> elements;                    // how long each buffer is
    std::vector<std::pair<int, at::Tensor>> buffers;  // with their numbers
    size_t next = 0;
  };
  std::map<at::ScalarType, Ring> rings_;  // empty where buckets have memory of their own
};

}  // namespace weft::memory

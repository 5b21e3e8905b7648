// A policy of inlining for LLVM's release mode: the policy @NAME@, written by `mlgo-gym export llvm-header`.
//
// Build LLVM with -DLLVM_OVERRIDE_MODEL_HEADER_INLINERSIZEMODEL=<this file>, and an object file of an
// empty source for -DLLVM_OVERRIDE_MODEL_OBJECT_INLINERSIZEMODEL=; then `clang -Oz -mllvm -enable-ml-inliner=release`.
#ifndef MLGO_INLINERSIZEMODEL_H
#define MLGO_INLINERSIZEMODEL_H

#include <cstdint>
#include <math.h>
#include <string>

// A fused multiply-add rounds once and gives another number, so the policy's decisions need separate operations.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

namespace mlgo_policy {
@POLICY@
} // namespace mlgo_policy

#if defined(__clang__)
#pragma clang fp contract(on)
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

namespace llvm {

// The interface that ReleaseModeModelRunner (llvm/Analysis/ReleaseModeModelRunner.h) expects of a compiled model.
// llvm/lib/Analysis/MLInlineAdvisor.cpp instantiates this class.
class InlinerSizeModel {
public:
  int LookupArgIndex(const std::string &Name) {
    static const char *const Names[] = {@FEATURES@};
    for (int I = 0; I < Count; ++I)
      if (Name == Names[I]) {
        DefaultGiven |= I == @DEFAULT@;
        return I;
      }
    return -1;
  }
  int LookupResultIndex(const std::string &Name) const { return Name == "fetch_inlining_decision" ? 0 : -1; }
  void *arg_data(int Index) { return &Features[Index]; }
  void *result_data(int) { return &Decision; }
  void Run() {
    @SET_DEFAULT@
    float Values[Count + 1] = {};
    for (int I = 0; I < Count; ++I)
      Values[I] = static_cast<float>(Features[I]);
    Decision = mlgo_policy::mlgo_yes(Values);
  }

private:
  static constexpr int Count = @COUNT@;
  int64_t Features[Count + 1] = {};
  // Whether LLVM looked up clang's own decision; then LLVM sets it.
  bool DefaultGiven = false;
  int64_t Decision = 0;
};
} // namespace llvm

#endif // MLGO_INLINERSIZEMODEL_H

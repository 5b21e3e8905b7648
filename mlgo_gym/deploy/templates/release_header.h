// A policy of @KIND@ for LLVM's release mode: the policy @NAME@, written by `mlgo-gym export llvm-header`.
//
// Build LLVM with -DLLVM_OVERRIDE_MODEL_HEADER_@MODEL@=<this file>, and an object file of an
// empty source for -DLLVM_OVERRIDE_MODEL_OBJECT_@MODEL@=; then `clang @FLAGS@`.
#ifndef MLGO_@MODEL@_H
#define MLGO_@MODEL@_H

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

@CLASS@
} // namespace llvm

#endif // MLGO_@MODEL@_H

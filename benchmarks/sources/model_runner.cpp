// Prints a decision of LLVM's ReleaseModeModelRunner for each row of features on standard input; `names` lists them.
#include "header.h"
#include "llvm/Analysis/InlineModelFeatureMaps.h"
#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/IR/LLVMContext.h"
#include <cstdio>
#include <vector>
// The features of this LLVM, in its order.
#define NAME(DTYPE, SHAPE, NAME, DOC) #NAME,
static const char *const Names[] = {INLINE_COST_FEATURE_ITERATOR(NAME) INLINE_FEATURE_ITERATOR(NAME)};
int main(int Count, char **) {
  llvm::LLVMContext Context;
  std::vector<llvm::TensorSpec> Specs;
  for (const char *Name : Names)
    Specs.push_back(llvm::TensorSpec::createSpec<int64_t>(Name, {1}));
  if (Count > 1) {
    for (const char *Name : Names)
      std::puts(Name);
    return 0;
  }
  llvm::ReleaseModeModelRunner<llvm::InlinerSizeModel> Runner(Context, Specs, "inlining_decision");
  std::vector<int64_t> Row(Specs.size());
  while (std::fread(Row.data(), 8, Row.size(), stdin) == Row.size()) {
    for (size_t I = 0; I < Row.size(); ++I)
      *Runner.getTensor<int64_t>(I) = Row[I];
    std::putchar(Runner.evaluate<int64_t>() ? '1' : '0');
  }
}

// An inlining policy inside clang, opt and lld: the policy @NAME@, written by `mlgo-gym export plugin`.
//
// LLVM takes the inline advisor of a PluginInlineAdvisorAnalysis before that of any other mode. This advisor is LLVM's
// MLInlineAdvisor, which computes the features, with a model runner that evaluates the policy.

#include <math.h>

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/InlineAdvisor.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/Analysis/InlineModelFeatureMaps.h"
#include "llvm/Analysis/MLInlineAdvisor.h"
#include "llvm/Analysis/MLModelRunner.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ProfileSummaryInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

static_assert(LLVM_VERSION_MAJOR == @MAJOR@, "expected LLVM @MAJOR@; export the plugin for this LLVM");

// ---- the policy: its features, and its weights ----------------------------------------------------------------------
@LINKAGE@@POLICY@
// ---- the advisor ----------------------------------------------------------------------------------------------------

using namespace llvm;

namespace {

// Index of each feature of the policy among LLVM @MAJOR@'s, or the complement of its index in `Own`.
constexpr int Indices[] = {@INDICES@};
constexpr size_t Count = @COUNT@;

class PolicyRunner : public MLModelRunner {
public:
  PolicyRunner(LLVMContext &Context, const std::vector<TensorSpec> &Features)
      : MLModelRunner(Context, Kind::Release, Features.size()) {
    for (size_t I = 0; I < Features.size(); ++I)
      setUpBufferForTensor(I, Features[I], nullptr);
  }

  // Features that the advisor does not compute; the first is clang's own decision.
  float Own[@OWN@] = {};

  // The call that is decided.
  const CallBase *Call = nullptr;

protected:
  void *evaluateUntyped() override {
    float Values[Count + 1] = {};
    for (size_t I = 0; I < Count; ++I)
      Values[I] = Indices[I] < 0 ? Own[~Indices[I]] : static_cast<float>(*getTensor<int64_t>(Indices[I]));
    Decision = @DECISION@;
    return &Decision;
  }

  int64_t Decision = 0;
};

// The same as getDefaultInlineAdvice of llvm/lib/Analysis/InlineAdvisor.cpp, which no library exports.
bool defaultDecision(CallBase &Call, FunctionAnalysisManager &FAM, const InlineParams &Params) {
  Function &Caller = *Call.getCaller();
  Function &Callee = *Call.getCalledFunction();
  auto &Remarks = FAM.getResult<OptimizationRemarkEmitterAnalysis>(Caller);
  auto &Target = FAM.getResult<TargetIRAnalysis>(Callee);
  auto *Profile = FAM.getResult<ModuleAnalysisManagerFunctionProxy>(Caller).getCachedResult<ProfileSummaryAnalysis>(
      *Caller.getParent());
  auto Assumptions = [&](Function &F) -> AssumptionCache & { return FAM.getResult<AssumptionAnalysis>(F); };
  auto Frequencies = [&](Function &F) -> BlockFrequencyInfo & { return FAM.getResult<BlockFrequencyAnalysis>(F); };
  auto Library = [&](Function &F) -> const TargetLibraryInfo & { return FAM.getResult<TargetLibraryAnalysis>(F); };
  auto Cost = [&](CallBase &CB) {
    return getInlineCost(CB, Params, Target, Assumptions, Library, Frequencies, Profile, nullptr);
  };
  bool Deferral = Params.EnableDeferral.value_or(false);
#if LLVM_VERSION_MAJOR >= 20
  return shouldInline(Call, Target, Cost, Remarks, Deferral).has_value();
#else
  return shouldInline(Call, Cost, Remarks, Deferral).has_value();
#endif
}

template <class Runner> class PolicyAdvisor : public MLInlineAdvisor {
public:
  PolicyAdvisor(Module &M, ModuleAnalysisManager &MAM, std::function<bool(CallBase &)> Default)
#if LLVM_VERSION_MAJOR >= 21
      : MLInlineAdvisor(
            M, MAM,
            [&M](const std::vector<TensorSpec> &Features) {
              return std::make_unique<Runner>(M.getContext(), Features);
            },
            Default) {
  }
#else
      : MLInlineAdvisor(M, MAM, std::make_unique<Runner>(M.getContext(), FeatureMap), Default) {
  }
#endif

protected:
  std::unique_ptr<MLInlineAdvice> getAdviceFromModel(CallBase &Call, OptimizationRemarkEmitter &Remarks) override {
    auto &Policy = static_cast<Runner &>(*ModelRunner);
    Policy.Call = &Call;
    if (@USES_DEFAULT@)
      Policy.Own[0] = GetDefaultAdvice(Call);
    return MLInlineAdvisor::getAdviceFromModel(Call, Remarks);
  }
};

} // namespace
@FACTS@@CALLEES@
namespace {

// A factory does not receive the manager of module analyses. Each thread of a ThinLTO link has its own manager.
thread_local ModuleAnalysisManager *Manager = nullptr;

// The policy decides in modules that are mostly compiled for size. In others, as at -O2, clang decides.
bool isForSize(const Module &M) {
  size_t Small = 0, All = 0;
  for (const Function &F : M)
    if (!F.isDeclaration()) {
      ++All;
      Small += F.hasOptSize();
    }
  return 2 * Small > All;
}

InlineAdvisor *makeAdvisor(Module &M, FunctionAnalysisManager &FAM, InlineParams Params, InlineContext Context) {
  // A module that is optimised again in the link, where it gets its linkages, is for clang until then.
  bool IsBeforeLink =
      Context.LTOPhase == ThinOrFullLTOPhase::ThinLTOPreLink || Context.LTOPhase == ThinOrFullLTOPhase::FullLTOPreLink;
  if (@LEAVES_TO_CLANG@ || !Manager || IsBeforeLink || !isForSize(M))
    return new DefaultInlineAdvisor(M, FAM, Params, Context);
  return new @ADVISOR@(M, *Manager, [&FAM, Params](CallBase &Call) { return defaultDecision(Call, FAM, Params); });
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "mlgo-inline", "@NAME@", [](PassBuilder &Builder) {
            Builder.registerAnalysisRegistrationCallback([](ModuleAnalysisManager &MAM) {
              Manager = &MAM;
              MAM.registerPass([] { return PluginInlineAdvisorAnalysis(makeAdvisor); });
            });
            Builder.registerPipelineStartEPCallback([](ModulePassManager &Passes, OptimizationLevel Level) {
              if (Level != OptimizationLevel::O0)
                Passes.addPass(InternalLinkage());
            });
          }};
}

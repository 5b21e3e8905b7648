
// ---- callee features ------------------------------------------------------------------------------------------------

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace {

// Lines that LLVM prints of an instruction. The environment counts printed lines, so the policy learned from them.
unsigned linesOf(const Instruction &I) {
  if (const auto *Switch = dyn_cast<SwitchInst>(&I))
    return 2 + Switch->getNumCases();
  if (const auto *Pad = dyn_cast<LandingPadInst>(&I))
    return 1 + Pad->isCleanup() + Pad->getNumClauses();
  return isa<InvokeInst>(I) || isa<CallBrInst>(I) ? 2 : 1;
}

// Facts about a function, or about a component of the call graph, by name.
struct Named {
  // Facts of the code at the inliner's first visit; -1 is unknown.
  int Linkage = -1, Unnamed = -1, Comdat = -1, Lines = -1, Calls = -1;
  int Visits = 0;
  // Decisions so far to keep [0] and to inline [1]: calls of the function, and calls within it.
  int Called[2] = {}, Within[2] = {};
  // Link facts.
  int Copies = -1, References = -1;
};

// The decisions of a module so far. Features have the order of mlgo_gym.compiler.callee_features.
class DecisionHistory {
public:
  void enterComponent(const LazyCallGraph::SCC &Component) {
    // The names as clang prints them: of more than ten functions it prints some.
    std::string Text = Component.getName();
    SmallVector<StringRef, 4> Names;
    StringRef(Text).drop_front().drop_back().split(Names, ", ");
    llvm::sort(Names);
    for (LazyCallGraph::Node &Node : Component)
      inspect(Node.getFunction());
    Caller = Known.lookup(Names.front()).Linkage;
    Others = Names.size() - 1;
    Context = &Known[llvm::join(Names, ", ")];
    Visit = Context->Visits++;
    Position = -1;
  }

  void startDecision(const Function &Called) {
    if (!Least)
      Least = Facts && !Facts->covers(Called.getParent()->getSourceFileName()) ? 0 : -1;
    Callee = &named(Called);
    ++Position;
  }

  void writeFeatures(double Users, double Functions, float *Values) {
    const int *Pair = Pairs[{Context, Callee}].Count;
    const int Kept = Callee->Called[0];
    // Clang counts the symbol of an externally visible function as one more use.
    const double Uses = Users - (Callee->Linkage != 0); // 0 is internal
    const double Seen[] = {
        double(Callee->Linkage), double(Callee->Unnamed),    double(Callee->Comdat),    double(Caller),
        double(Callee->Lines),   double(Callee->Calls),      double(Others),            double(Visit),
        double(Position),        double(Kept),               double(Callee->Called[1]), Users - Kept,
        double(Uses <= 1),       double(Context->Within[1]), double(Context->Within[0]), double(Pair[1]),
        double(Pair[0]),         double(Callee->Within[1]),  double(Callee->Within[0]), double(Made),
        Made / std::max(1.0, Functions), double(std::max(Callee->Copies, *Least)),
        double(std::max(Callee->References, *Least))};
    static_assert(std::size(Seen) == @COUNT@);
    std::copy(std::begin(Seen), std::end(Seen), Values);
  }

  void add(bool Inlined) {
    ++Made;
    ++Callee->Called[Inlined];
    ++Context->Within[Inlined];
    ++Pairs[{Context, Callee}].Count[Inlined];
  }

private:
  struct Decisions {
    int Count[2] = {};
  };

  Named &named(const Function &F) {
    auto [Entry, IsNew] = Known.try_emplace(F.getName());
    if (auto Fact = IsNew && Facts ? Facts->find(F.getName()) : std::nullopt)
      std::tie(Entry->second.Copies, Entry->second.References) = std::tie(Fact->Copies, Fact->References);
    return Entry->second;
  }

  void inspect(const Function &F) {
    Named &Function = named(F);
    if (Function.Linkage >= 0 || F.isDeclaration())
      return;
    Function.Linkage = rankOfLinkage(F);
    Function.Unnamed = F.getUnnamedAddr() != GlobalValue::UnnamedAddr::None;
    Function.Comdat = F.hasComdat();
    Function.Lines = Function.Calls = 0;
    for (const Instruction &I : instructions(F)) {
      // Decisions do not depend on debug information.
      if (isa<DbgInfoIntrinsic>(I))
        continue;
      Function.Lines += linesOf(I);
      Function.Calls += isa<CallInst>(I) || isa<InvokeInst>(I);
    }
  }

  StringMap<Named> Known;
  DenseMap<std::pair<const Named *, const Named *>, Decisions> Pairs;
  // A module inliner visits no component.
  Named Nowhere, *Context = &Nowhere, *Callee = &Nowhere;
  int Caller = -1, Others = 0, Visit = 0, Position = -1, Made = 0;
  const LinkFacts *Facts = LinkFacts::read();
  // Link facts of a function that they do not contain: 0, or -1 if they cover the module, and without facts.
  std::optional<int> Least;
};

class CalleeRunner final : public PolicyRunner {
public:
  using PolicyRunner::PolicyRunner;

  DecisionHistory History;

private:
  void *evaluateUntyped() override {
    auto Feature = [this](FeatureIndex Index) { return static_cast<float>(*getTensor<int64_t>(size_t(Index))); };
    History.writeFeatures(Feature(FeatureIndex::callee_users), Feature(FeatureIndex::node_count), Own + 1);
    void *Decision = PolicyRunner::evaluateUntyped();
    History.add(*static_cast<int64_t *>(Decision));
    return Decision;
  }
};

class CalleeAdvisor final : public PolicyAdvisor<CalleeRunner> {
public:
  using PolicyAdvisor::PolicyAdvisor;

  void onPassEntry(LazyCallGraph::SCC *Component) override {
    PolicyAdvisor::onPassEntry(Component);
    if (Component)
      history().enterComponent(*Component);
  }

private:
  DecisionHistory &history() { return static_cast<CalleeRunner &>(*ModelRunner).History; }

  std::unique_ptr<MLInlineAdvice> getAdviceFromModel(CallBase &Call, OptimizationRemarkEmitter &Remarks) override {
    history().startDecision(*Call.getCalledFunction());
    return PolicyAdvisor::getAdviceFromModel(Call, Remarks);
  }
};

} // namespace

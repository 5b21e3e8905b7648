
// ---- link facts: numbers for policies, and internal linkage for functions that one object alone uses --------------

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

namespace {

struct LinkFact {
  int Copies, References;
  bool IsOwn;
};

bool readLinkFacts(StringRef Text, StringMap<LinkFact> &Facts) {
  auto [Header, Lines] = Text.split('\n');
  SmallVector<StringRef, 5> Words;
  Header.split(Words, ' ');
  size_t Bytes;
  if (Words.size() != 5 || Words[0] != "mlgo-link-facts" || Words[1] != "3" || Words[3].getAsInteger(10, Bytes) ||
      Bytes != Lines.size() || Words[4] != toHex(SHA256::hash(arrayRefFromStringRef(Lines)), true))
    return false;
  while (!Lines.empty()) {
    auto [Line, Rest] = Lines.split('\n');
    SmallVector<StringRef, 5> Columns; // copies, references, twins, use, name
    Line.split(Columns, ' ', 4);
    LinkFact Fact;
    if (Columns.size() != 5 || Columns[0].getAsInteger(10, Fact.Copies) ||
        Columns[1].getAsInteger(10, Fact.References))
      return false;
    Fact.IsOwn = Columns[3] == "own";
    Facts[Columns[4]] = Fact;
    Lines = Rest;
  }
  return true;
}

// The file in the environment variable MLGO_LINK_FACTS by name; mlgo_clang/link_facts.py has its format. A file that is
// not complete has no effect, but for a warning.
const StringMap<LinkFact> *linkFacts() {
  static StringMap<LinkFact> Facts;
  static const bool IsRead = [] {
    const char *Path = std::getenv("MLGO_LINK_FACTS");
    if (!Path || !*Path)
      return false;
    ErrorOr<std::unique_ptr<MemoryBuffer>> File = std::make_error_code(std::errc::invalid_argument);
    if (sys::fs::is_regular_file(Path))
      File = MemoryBuffer::getFile(Path);
    if (File && readLinkFacts((*File)->getBuffer(), Facts))
      return true;
    errs() << "warning: expected a complete file of link facts, got " << Path << "; run mlgo-gym link-facts\n";
    return false;
  }();
  return IsRead ? &Facts : nullptr;
}

// The functions that mlgo_clang/internal_linkage.py changes in bitcode.
class InternalLinkage : public PassInfoMixin<InternalLinkage> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    const StringMap<LinkFact> *Facts = linkFacts();
    if (!Facts || StringRef(std::getenv("MLGO_INTERNAL") ? std::getenv("MLGO_INTERNAL") : "") == "off")
      return PreservedAnalyses::all();
    SmallVector<GlobalValue *, 8> Kept;
    collectUsedGlobalVariables(M, Kept, false);
    collectUsedGlobalVariables(M, Kept, true);
    for (GlobalAlias &Alias : M.aliases())
      Kept.push_back(Alias.getAliaseeObject());
    for (GlobalIFunc &IFunc : M.ifuncs())
      Kept.push_back(IFunc.getResolverFunction());
    DenseMap<const Comdat *, unsigned> Members;
    for (GlobalObject &Object : M.global_objects())
      ++Members[Object.getComdat()];
    addNames(M.getModuleInlineAsm());
    for (Function &F : M)
      for (Instruction &I : instructions(F))
        if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->isInlineAsm())
          addNames(StringRef(cast<InlineAsm>(Call->getCalledOperand())->getAsmString()));
    for (Function &F : M) {
      auto Fact = Facts->find(F.getName());
      if (!F.hasLinkOnceODRLinkage() || F.isDeclaration() || Fact == Facts->end() || !Fact->second.IsOwn ||
          !F.getName().starts_with("_Z") || F.hasSection() || is_contained(Kept, &F) || Named.contains(F.getName()) ||
          (F.hasComdat() && Members[F.getComdat()] > 1))
        continue;
      F.setComdat(nullptr);
      F.setLinkage(GlobalValue::InternalLinkage);
    }
    return PreservedAnalyses::none();
  }

private:
  void addNames(StringRef Assembler) {
    auto IsPart = [](char C) { return isAlnum(C) || C == '_' || C == '.' || C == '$'; };
    for (StringRef Rest = Assembler.drop_until(IsPart); !Rest.empty(); Rest = Rest.drop_until(IsPart)) {
      Named.insert(Rest.take_while(IsPart));
      Rest = Rest.drop_while(IsPart);
    }
  }

  StringSet<> Named;
};

} // namespace


// ---- link facts: numbers for policies, and internal linkage for functions that one object alone uses --------------

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <optional>

namespace {

struct LinkFact {
  int Copies, References;
  bool IsOwn;
};

// The file that the environment variable MLGO_LINK_FACTS names; mlgo_clang/link_facts.py has its format.
class LinkFacts {
public:
  // Null without a file. One that is not complete has no effect, but for a warning.
  static const LinkFacts *read() {
    static const LinkFacts Facts;
    return Facts.Lines.empty() ? nullptr : &Facts;
  }

  bool covers(StringRef Source) const {
    return File->getBuffer().contains(("\n0 0 0 source " + sys::path::filename(Source) + "\n").str());
  }

  // A binary search: lines are sorted by name, and of one name by their numbers.
  std::optional<LinkFact> find(StringRef Name) const {
    for (StringRef Rest = Lines; !Rest.empty();) {
      size_t Start = Rest.rfind('\n', Rest.size() / 2) + 1; // 0 if there is none
      StringRef Line = Rest.substr(Start).split('\n').first;
      SmallVector<StringRef, 5> Columns; // copies, references, twins, use, name
      Line.split(Columns, ' ', 4);
      LinkFact Fact;
      if (Columns.size() != 5 || Columns[0].getAsInteger(10, Fact.Copies) ||
          Columns[1].getAsInteger(10, Fact.References))
        return std::nullopt;
      int Order = Name.compare(Columns[4]);
      if (Order == 0 && Fact.Copies) {
        Fact.IsOwn = Columns[3] == "own";
        return Fact;
      }
      Rest = Order < 0 ? Rest.take_front(Start) : Rest.drop_front(Start + Line.size() + 1);
    }
    return std::nullopt;
  }

private:
  LinkFacts() {
    const char *Path = std::getenv("MLGO_LINK_FACTS");
    if (!Path || !*Path)
      return;
    ErrorOr<std::unique_ptr<MemoryBuffer>> Read = std::make_error_code(std::errc::invalid_argument);
    if (sys::fs::is_regular_file(Path))
      Read = MemoryBuffer::getFile(Path);
    if (Read) {
      File = std::move(*Read);
      auto [Header, Rest] = File->getBuffer().split('\n');
      SmallVector<StringRef, 5> Words; // name, version, lines, bytes, CRC-32
      Header.split(Words, ' ');
      size_t Bytes;
      uint32_t Sum;
      if (Words.size() == 5 && Words[0] == "mlgo-link-facts" && Words[1] == "4" && !Words[3].getAsInteger(10, Bytes) &&
          Bytes == Rest.size() && !Words[4].getAsInteger(16, Sum) && Sum == crc32(arrayRefFromStringRef(Rest))) {
        Lines = Rest;
        return;
      }
    }
    errs() << "warning: expected a complete file of link facts, got " << Path << "; run mlgo-gym link-facts\n";
  }

  std::unique_ptr<MemoryBuffer> File;
  StringRef Lines;
};

// The functions that mlgo_clang/internal_linkage.py changes in bitcode.
class InternalLinkage : public PassInfoMixin<InternalLinkage> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    const LinkFacts *Facts = LinkFacts::read();
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
      if (!F.hasLinkOnceODRLinkage() || F.isDeclaration() || !F.getName().starts_with("_Z") || F.hasSection() ||
          is_contained(Kept, &F) || Named.contains(F.getName()) || (F.hasComdat() && Members[F.getComdat()] > 1))
        continue;
      auto Fact = Facts->find(F.getName());
      if (!Fact || !Fact->IsOwn)
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

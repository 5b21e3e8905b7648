// The interface that ReleaseModeModelRunner (llvm/Analysis/ReleaseModeModelRunner.h) expects of a compiled model.
// llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp instantiates this class.
class RegAllocEvictModel {
public:
  RegAllocEvictModel() {
    static const bool Floats[] = {@FLOATS@};
    // The offsets that `mlgo_decide` takes: each column's features, `progress`, and `mask`.
    for (int C = 0; C < mlgo_policy::COLUMNS; ++C)
      for (int F = 0; F < mlgo_policy::EACH; ++F)
        Offsets[C * mlgo_policy::EACH + F] = Floats[F] ? ~(F * Size + C * 4) : F * Size + C * 8;
    Offsets[Last] = ~(mlgo_policy::EACH * Size);
    Offsets[Last + 1] = (mlgo_policy::EACH + 1) * Size;
  }
  int LookupArgIndex(const std::string &Name) const {
    static const char *const Names[] = {@FEATURES@};
    for (int I = 0; I < Count; ++I)
      if (Name == Names[I])
        return I;
    return -1;
  }
  int LookupResultIndex(const std::string &Name) const { return Name == "fetch_index_to_evict" ? 0 : -1; }
  void *arg_data(int Index) { return Tensors + Index * Size; }
  void *result_data(int) { return &Decision; }
  void Run() { Decision = mlgo_policy::mlgo_decide(Tensors, 0, Offsets); }

private:
  // Every tensor has the space of one int64 per column.
  static constexpr int Size = mlgo_policy::COLUMNS * 8, Count = mlgo_policy::EACH + 2;
  static constexpr int Last = mlgo_policy::COLUMNS * mlgo_policy::EACH;
  alignas(8) char Tensors[Count * Size] = {};
  int Offsets[Last + 2];
  int64_t Decision = 0;
};

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

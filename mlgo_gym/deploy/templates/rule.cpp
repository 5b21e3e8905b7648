
// The rule, in the names of mlgo-gym's features:
//   @RULE@
static bool shouldInlineCall(@PARAMETERS@) {
  return @CONDITION@;
}

static int mlgo_yes(const llvm::CallBase &Call, const float *features) {
  return shouldInlineCall(@VALUES@);
}

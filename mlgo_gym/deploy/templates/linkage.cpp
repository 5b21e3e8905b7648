
// Linkage as a number: internal 0, linkonce 1, weak 2, available_externally 3, external 4.
static double rankOfLinkage(const llvm::Function &F) {
  if (F.hasLocalLinkage())
    return 0;
  if (F.hasLinkOnceLinkage())
    return 1;
  if (F.hasWeakLinkage())
    return 2;
  return F.hasAvailableExternallyLinkage() ? 3 : 4;
}

@POLICY@
const char *const mlgo_inputs = "@INPUTS@";
const char *const mlgo_callee_features = "@CALLEE_FEATURES@";

long long mlgo_decide(const char *data, long long start, const int *offsets) {
  const float bound = 9007199254740992.0f; // 2^53, as in observations of an environment
  float features[@COUNT@];
  for (int i = 0; i < @COUNT@; ++i) {
    if (offsets[i] < 0) {
      __builtin_memcpy(&features[i], data + start + ~offsets[i], sizeof features[i]);
      if (features[i] != features[i]) features[i] = 0;
      if (features[i] > bound) features[i] = bound;
      if (features[i] < -bound) features[i] = -bound;
    } else {
      long long value;
      __builtin_memcpy(&value, data + start + offsets[i], sizeof value);
      features[i] = (float)value;
    }
  }
  return mlgo_yes(features);
}
@CHANNEL@

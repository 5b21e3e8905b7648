@FORWARD@
// The policy of `mlgo_gym.policies.mlp`: a network rates each legal column against clang's own choice, which is that
// of `mlgo_gym.llvm.advisors.default_eviction`.
enum { COLUMNS = @COLUMNS@, LAST = COLUMNS - 1, EACH = @EACH@ };
enum { HINT = @HINT@, LOCAL = @LOCAL@, BROKEN = @BROKEN@, URGENT = @URGENT@, WEIGHT = @WEIGHT@ };

static float mlgo_value(const char *data, int offset) {
  const float bound = 9007199254740992.0f; // 2^53, as in observations of an environment
  float value;
  if (offset >= 0) {
    long long whole;
    __builtin_memcpy(&whole, data + offset, sizeof whole);
    return (float)whole;
  }
  __builtin_memcpy(&value, data + ~offset, sizeof value);
  return value > bound ? bound : value < -bound ? -bound : value;
}

static int mlgo_default(const int *legal, float features[][EACH]) {
  const double infinite = __builtin_inf();
  double limit = features[LAST][WEIGHT], hints = infinite, weight = infinite;
  if (limit != limit) limit = infinite;
  int best = LAST;
  for (int c = 0; c < LAST; ++c) {
    if (!legal[c]) continue;
    double own = features[c][WEIGHT];
    if (own != own) own = infinite;
    double broken = features[c][BROKEN] + 10 * (double)features[c][URGENT];
    if (!(broken < hints || (broken == hints && own < weight))) continue;
    if (legal[LAST] && (!(own < limit) || (best != LAST && features[c][LOCAL]))) continue;
    best = c, hints = broken, weight = own;
    if (features[c][HINT]) break;
  }
  if (best == LAST && !legal[LAST])
    for (best = 0; best < LAST && !legal[best];) ++best;
  return best;
}

static float mlgo_relation(float a, float b) {
  return (a - b) / ((a < 0 ? -a : a) + (b < 0 ? -b : b) + 1e-6f);
}

long long mlgo_decide(const char *data, long long start, const int *offsets) {
  float features[COLUMNS][EACH], least[EACH], in[MLGO_FEATURES], out[1], smallest = 0;
  int legal[COLUMNS], count = 0;
  const char *at = data + start, *mask = at + offsets[COLUMNS * EACH + 1];
  for (int c = 0; c < COLUMNS; ++c) {
    long long allowed;
    __builtin_memcpy(&allowed, mask + c * sizeof allowed, sizeof allowed);
    count += legal[c] = allowed != 0;
    for (int f = 0; f < EACH; ++f) features[c][f] = mlgo_value(at, offsets[c * EACH + f]);
  }
  float progress = mlgo_value(at, offsets[COLUMNS * EACH]);
  if (progress != progress) progress = 0;
  int own = mlgo_default(legal, features), best = own, any = 0;
  for (int c = 0; c < COLUMNS; ++c)
    for (int f = 0; f < EACH; ++f)
      if (features[c][f] != features[c][f]) features[c][f] = 0;
  for (int c = 0; c < LAST; ++c) {
    if (!legal[c]) continue;
    for (int f = 0; f < EACH; ++f)
      if (!any || features[c][f] < least[f]) least[f] = features[c][f];
    any = 1;
  }
  if (!any) __builtin_memcpy(least, features[LAST], sizeof least);
  for (int c = 0; c < COLUMNS; ++c) {
    if (!legal[c] || c == own) continue;
    for (int f = 0; f < EACH; ++f) {
      float value = features[c][f];
      in[f] = value;
      in[EACH + f] = features[own][f];
      in[2 * EACH + f] = features[LAST][f];
      in[3 * EACH + f] = mlgo_relation(value, features[own][f]);
      in[4 * EACH + f] = mlgo_relation(value, features[LAST][f]);
      in[5 * EACH + f] = mlgo_relation(value, least[f]);
    }
    float *facts = in + 6 * EACH;
    facts[0] = c == LAST, facts[1] = own == LAST, facts[2] = progress, facts[3] = (float)count;
    facts[4] = (float)c, facts[5] = (float)own, facts[6] = (float)legal[LAST];
    mlgo_forward(in, out);
    if (out[0] < smallest) smallest = out[0], best = c;
  }
  return best;
}

#ifdef __cplusplus
#include <math.h>
#else
double log1p(double);
double tanh(double);
float copysignf(float, float);
#endif
@TABLES@
static inline void mlgo_product(const float *in, const float *w, int n, int m, float *out) {
  for (int j = 0; j < m; ++j) out[j] = in[0] * w[j];
  for (int i = 1; i < n; ++i)
    for (int j = 0; j < m; ++j) out[j] += in[i] * w[i * m + j];
}
static int mlgo_yes(const float *features) {
@STATEMENTS@
  return @DECISION@;
}

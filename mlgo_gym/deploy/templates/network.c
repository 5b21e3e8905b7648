#ifdef __cplusplus
#include <math.h>
#else
double log1p(double);
double tanh(double);
double expm1(double);
float copysignf(float, float);
#endif
@TABLES@
static void mlgo_layer(const float *in, const float *w, const float *b, int n, int m, float *out, int hidden) {
  for (int j = 0; j < m; ++j) out[j] = in[0] * w[j];
  for (int i = 1; i < n; ++i)
    for (int j = 0; j < m; ++j) out[j] += in[i] * w[i * m + j];
  for (int j = 0; j < m; ++j) {
    float x = out[j] + b[j];
    out[j] = hidden ? (@ACTIVATION@) : x;
  }
}
static void mlgo_forward(const float *features, float *outputs) {
@STATEMENTS@
}
